/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/death/bus_end.h"
#include "shm/burial/grave.h"
#include "shm/memory/mapping.h"
#include "shm/memory/temporary.h"
#include "shm/trace/rings.h"
#include "shm/wake/poll_descriptor.h"

void busq_bus_tidy(busq_bus *bus)
{
  (void)busq_grave_bury_all(bus);
  busq_rings_unlink(bus);
}

void busq_bus_abandon(busq_bus *bus)
{
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++)
    busq_fifo_unlink(bus, slot, (uint32_t)(busq_load_acquire(&bus->slots[slot].life) >> 32));
  busq_rings_unlink(bus);
}

void busq_bus_leave(busq_bus *bus)
{
  if (busq_fetch_add(&bus->users, UINT32_MAX) == 1 && busq_temporary_drop(bus))
    busq_bus_tidy(bus);
}

void busq_bus_free(busq_bus *bus)
{
  if (!bus)
    return;
  busq_bus_leave(bus);
  busq_bus_release(bus);
}
