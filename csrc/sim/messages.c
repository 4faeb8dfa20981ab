/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/messages.h"
#include "base/error.h"
#include "base/growing.h"
#include <stdlib.h>
#include <string.h>

enum {
  BLOCKS_PER_CHUNK = 64,
  SEARCHED_ONE_BY_ONE = 16 /* destinations; of more than that a sorted copy stands behind the list */
};

static int out_of_memory(const busq_messages *store)
{
  return busq_error(BUSQ_NO_SPACE, "no memory for the messages of %u processes: use fewer processes or messages",
                    store->n_processes);
}

/* ---- blocks of n words ---- */

static uint32_t *block_at(const busq_messages *store, const busq_clock_blocks *blocks, uint32_t block)
{
  return &blocks->chunks[block / BLOCKS_PER_CHUNK][(size_t)(block % BLOCKS_PER_CHUNK) * store->n_processes];
}

static bool add_chunk(const busq_messages *store, busq_clock_blocks *blocks)
{
  uint32_t **chunks = realloc(blocks->chunks, (blocks->n_chunks + 1) * sizeof *chunks);
  if (!chunks)
    return false;
  blocks->chunks = chunks;
  chunks[blocks->n_chunks] = malloc((size_t)BLOCKS_PER_CHUNK * store->n_processes * sizeof **chunks);
  if (!chunks[blocks->n_chunks])
    return false;
  blocks->n_chunks++;
  return true;
}

/* A block with a copy of these words; BUSQ_MESSAGES_NO_CLOCK where memory ran out. */
static uint32_t take_block(const busq_messages *store, busq_clock_blocks *blocks, const uint32_t *words)
{
  uint32_t block = blocks->first_free;
  if (block != BUSQ_MESSAGES_NO_CLOCK) {
    blocks->first_free = *block_at(store, blocks, block);
  } else {
    if (blocks->n_blocks == blocks->n_chunks * BLOCKS_PER_CHUNK && !add_chunk(store, blocks))
      return BUSQ_MESSAGES_NO_CLOCK;
    block = blocks->n_blocks++;
  }
  blocks->n_used++;
  memcpy(block_at(store, blocks, block), words, store->n_processes * sizeof *words);
  return block;
}

static void give_block(const busq_messages *store, busq_clock_blocks *blocks, uint32_t block)
{
  *block_at(store, blocks, block) = blocks->first_free;
  blocks->first_free = block;
  blocks->n_used--;
}

static void blocks_deinit(busq_clock_blocks *blocks)
{
  for (uint32_t chunk = 0; chunk < blocks->n_chunks; chunk++)
    free(blocks->chunks[chunk]);
  free(blocks->chunks);
}

/* ---- what a step may ask ---- */

static const uint32_t *vector_of(const busq_order_world *world, uint64_t message)
{
  const busq_messages *store = (const busq_messages *)(const void *)world;
  const busq_message_facts *facts = busq_messages_find(store, message);
  if (facts && facts->list)
    return facts->list;
  return facts && facts->clock != BUSQ_MESSAGES_NO_CLOCK ? block_at(store, &store->clocks, facts->clock) : NULL;
}

static const uint32_t *row_of(const busq_order_world *world, uint64_t message, uint32_t row)
{
  const busq_messages *store = (const busq_messages *)(const void *)world;
  const uint32_t *versions = vector_of(world, message);
  if (!versions || store->shape != BUSQ_CLOCK_MATRIX || row >= store->n_processes)
    return NULL;
  const busq_clock_rows *rows = &store->rows[row];
  const uint32_t version = versions[row];
  if (!version || version > rows->n)
    return store->zeros;
  return block_at(store, &store->row_blocks, rows->blocks[version - 1]);
}

/* ---- the store ---- */

static int init_matrix(busq_messages *store)
{
  store->rows = calloc(store->n_processes, sizeof *store->rows);
  store->zeros = calloc(store->n_processes, sizeof *store->zeros);
  return store->rows && store->zeros ? BUSQ_OK : out_of_memory(store);
}

int busq_messages_init(busq_messages *store, uint32_t n_processes, busq_order_clock_shape shape)
{
  *store = (busq_messages){
      .world = {.vector = vector_of, .row = row_of},
      .n_processes = n_processes,
      .shape = shape,
      .clocks.first_free = BUSQ_MESSAGES_NO_CLOCK,
      .row_blocks.first_free = BUSQ_MESSAGES_NO_CLOCK,
  };
  store->origins = calloc(n_processes, sizeof *store->origins);
  store->circle = malloc(2 * (size_t)n_processes * sizeof *store->circle);
  if (!store->origins || !store->circle)
    return out_of_memory(store);
  for (uint32_t process = 0; process < n_processes; process++)
    store->circle[process] = store->circle[process + n_processes] = process;
  return shape == BUSQ_CLOCK_MATRIX ? init_matrix(store) : BUSQ_OK;
}

void busq_messages_deinit(busq_messages *store)
{
  for (uint32_t process = 0; process < store->n_processes; process++) {
    for (uint32_t place = 0; store->origins && place < store->origins[process].n; place++)
      free(store->origins[process].facts[place].list);
    if (store->origins)
      free(store->origins[process].facts);
    if (store->rows)
      free(store->rows[process].blocks);
  }
  blocks_deinit(&store->clocks);
  blocks_deinit(&store->row_blocks);
  free(store->origins);
  free(store->rows);
  free(store->zeros);
  free(store->circle);
  free(store->pool);
  *store = (busq_messages){0};
}

/* ---- destinations ---- */

static bool is_circle(const busq_messages *store, uint32_t origin, const uint32_t *destinations, uint32_t n_destinations)
{
  return n_destinations == store->n_processes - 1 &&
         memcmp(destinations, &store->circle[origin + 1], n_destinations * sizeof *destinations) == 0;
}

static bool has_sorted(const busq_message_facts *facts)
{
  return facts->n_destinations > SEARCHED_ONE_BY_ONE;
}

/* Copies a list into the pool, a long one also in ascending order. */
static bool keep_list(busq_messages *store, const uint32_t *destinations, busq_message_facts *facts)
{
  const size_t n = facts->n_destinations;
  const uint64_t wanted = store->pool_size + (has_sorted(facts) ? 2 * n : n);
  if (!busq_reserve_long(&store->pool, &store->pool_capacity, wanted, sizeof *store->pool))
    return false;
  uint32_t *list = &store->pool[store->pool_size];
  memcpy(list, destinations, n * sizeof *list);
  if (has_sorted(facts)) {
    memcpy(list + n, destinations, n * sizeof *list);
    qsort(list + n, n, sizeof *list, busq_compare_words);
  }
  facts->destinations.start = store->pool_size;
  store->pool_size = wanted;
  return true;
}

bool busq_messages_is_among(const busq_messages *store, uint64_t message, const busq_message_facts *facts, uint32_t process)
{
  if (facts->is_to_others)
    return process != busq_message_origin(message);
  const uint32_t *list = busq_messages_destinations(store, message, facts);
  if (has_sorted(facts))
    return bsearch(&process, list + facts->n_destinations, facts->n_destinations, sizeof process, busq_compare_words) != NULL;
  for (uint32_t place = 0; place < facts->n_destinations; place++)
    if (list[place] == process)
      return true;
  return false;
}

/* ---- messages ---- */

int busq_messages_add(busq_messages *store, uint32_t origin, const uint32_t *destinations, uint32_t n_destinations,
                      uint64_t *messagep)
{
  busq_messages_of_origin *of = &store->origins[origin];
  busq_message_facts facts = {
      .n_destinations = n_destinations, .uses = n_destinations + 1, .clock = BUSQ_MESSAGES_NO_CLOCK};
  if (!busq_reserve(&of->facts, &of->capacity, (uint64_t)of->n + 1, sizeof *of->facts))
    return out_of_memory(store);
  if (n_destinations == 1)
    facts.destinations.only = destinations[0];
  else if (is_circle(store, origin, destinations, n_destinations))
    facts.is_to_others = 1;
  else if (!keep_list(store, destinations, &facts))
    return out_of_memory(store);
  of->facts[of->n++] = facts;
  *messagep = busq_message_name(origin, of->n);
  return BUSQ_OK;
}

void busq_messages_address(const busq_messages *store, uint32_t *room, busq_order_event *event)
{
  const uint64_t message = event->packet.message;
  const uint32_t origin = busq_message_origin(message);
  const busq_message_facts *facts = busq_messages_find(store, message);
  const uint32_t *destinations = busq_messages_destinations(store, message, facts);
  event->to = destinations[0];
  event->others = destinations;
  event->n_others = facts->n_destinations;
  event->is_for_me = busq_messages_is_for(store, message, origin);
  if (!event->is_for_me)
    return;
  event->others = room;
  for (uint32_t place = 0; place < facts->n_destinations; place++)
    if (destinations[place] != origin)
      *room++ = destinations[place];
  event->n_others--;
}

/* The sender's own row is new; all others came with messages, and were kept when they were sent. */
static bool keep_own_row(busq_messages *store, uint32_t origin, const uint32_t *clock)
{
  busq_clock_rows *rows = &store->rows[origin];
  const uint32_t version = clock[origin];
  if (version <= rows->n)
    return true;
  if (!busq_reserve(&rows->blocks, &rows->capacity, version, sizeof *rows->blocks))
    return false;
  const uint32_t *row = clock + (size_t)store->n_processes * (1 + (size_t)origin);
  const uint32_t block = take_block(store, &store->row_blocks, row);
  if (block == BUSQ_MESSAGES_NO_CLOCK)
    return false;
  while (rows->n < version) /* a version that was never sent is never asked for */
    rows->blocks[rows->n++] = block;
  return true;
}

static bool keep_list_clock(busq_message_facts *facts, const uint32_t *clock)
{
  const size_t bytes = busq_clock_used(BUSQ_CLOCK_LIST, 0, clock) * sizeof *clock;
  facts->list = malloc(bytes);
  if (facts->list)
    memcpy(facts->list, clock, bytes);
  return facts->list != NULL;
}

int busq_messages_set_clock(busq_messages *store, uint64_t message, const uint32_t *clock)
{
  busq_message_facts *facts = busq_messages_find(store, message);
  if (!clock || store->shape == BUSQ_CLOCK_NONE || !facts->uses)
    return BUSQ_OK;
  if (store->shape == BUSQ_CLOCK_MATRIX && !keep_own_row(store, busq_message_origin(message), clock))
    return out_of_memory(store);
  if (store->shape == BUSQ_CLOCK_LIST)
    return keep_list_clock(facts, clock) ? BUSQ_OK : out_of_memory(store);
  facts->clock = take_block(store, &store->clocks, clock);
  return facts->clock == BUSQ_MESSAGES_NO_CLOCK ? out_of_memory(store) : BUSQ_OK;
}

void busq_messages_hold(busq_messages *store, uint64_t message)
{
  busq_messages_find(store, message)->uses++;
}

void busq_messages_release(busq_messages *store, uint64_t message)
{
  busq_message_facts *facts = busq_messages_find(store, message);
  if (!facts->uses || --facts->uses)
    return;
  free(facts->list);
  facts->list = NULL;
  if (facts->clock == BUSQ_MESSAGES_NO_CLOCK)
    return;
  give_block(store, &store->clocks, facts->clock);
  facts->clock = BUSQ_MESSAGES_NO_CLOCK;
}
