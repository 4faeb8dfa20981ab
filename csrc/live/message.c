/* SPDX-License-Identifier: Apache-2.0 */
#include "live/message.h"
#include "base/atomic.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

busq_live_entry *busq_entry_new(uint64_t name, uint32_t n_destinations, size_t clock_bytes, size_t payload_bytes)
{
  const size_t before = sizeof(busq_wire_header) + busq_wire_destinations_bytes(n_destinations) + clock_bytes;
  busq_live_entry *entry = malloc(sizeof *entry + before + payload_bytes);
  if (!entry)
    return NULL;
  *entry = (busq_live_entry){
      .name = name,
      .references = 1,
      .n_destinations = n_destinations,
      .wire_bytes = before + payload_bytes,
      .payload_bytes = payload_bytes,
      .payload_offset = before,
  };
  memset(entry->wire, 0, before);
  return entry;
}

void busq_entry_retain(busq_live_entry *entry)
{
  (void)busq_fetch_add(&entry->references, 1);
}

void busq_entry_release(busq_live_entry *entry)
{
  if (busq_fetch_add(&entry->references, UINT32_MAX) == 1)
    free(entry);
}

/* ---- the table ---- */

enum { CHAINS_MIN = 64 };

static busq_live_entry **chain_of(const busq_live_table *table, uint64_t name)
{
  return &table->chains[busq_hash_mix(name) & (table->n_chains - 1)];
}

bool busq_table_init(busq_live_table *table)
{
  *table = (busq_live_table){.n_chains = CHAINS_MIN, .chains = calloc(CHAINS_MIN, sizeof *table->chains)};
  return table->chains != NULL;
}

void busq_table_deinit(busq_live_table *table)
{
  for (uint32_t i = 0; table->chains && i < table->n_chains; i++) {
    for (busq_live_entry *entry = table->chains[i], *next; entry; entry = next) {
      next = entry->next_in_chain;
      busq_entry_release(entry);
    }
  }
  free(table->chains);
  *table = (busq_live_table){0};
}

busq_live_entry *busq_table_find(const busq_live_table *table, uint64_t name)
{
  busq_live_entry *entry = *chain_of(table, name);
  while (entry && entry->name != name)
    entry = entry->next_in_chain;
  return entry;
}

static void chain_add(busq_live_table *table, busq_live_entry *entry)
{
  busq_live_entry **chain = chain_of(table, entry->name);
  entry->next_in_chain = *chain;
  *chain = entry;
}

/* Where there is no memory for more chains, they become longer. */
static void table_grow(busq_live_table *table)
{
  const busq_live_table old = *table;
  busq_live_entry **chains = calloc((size_t)old.n_chains * 2, sizeof *chains);
  if (!chains)
    return;
  table->chains = chains;
  table->n_chains = old.n_chains * 2;
  for (uint32_t i = 0; i < old.n_chains; i++) {
    for (busq_live_entry *entry = old.chains[i], *next; entry; entry = next) {
      next = entry->next_in_chain;
      chain_add(table, entry);
    }
  }
  free(old.chains);
}

void busq_table_add(busq_live_table *table, busq_live_entry *entry)
{
  if (table->count == table->n_chains)
    table_grow(table);
  chain_add(table, entry);
  table->count++;
}

void busq_table_drop(busq_live_table *table, busq_live_entry *entry, uint32_t reason)
{
  entry->kept &= ~reason;
  if (entry->kept & ~(uint32_t)BUSQ_KEPT_MINE)
    return;
  busq_live_entry **link = chain_of(table, entry->name);
  while (*link != entry)
    link = &(*link)->next_in_chain;
  *link = entry->next_in_chain;
  table->count--;
  busq_entry_release(entry);
}
