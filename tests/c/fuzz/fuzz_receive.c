/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of a bus change while it is in use: fuzz_world.h has the guarantees and the mechanism.
 *
 *      input: past (1 byte) | turns; see world_run()
 */
#include "fuzz/fuzz_world.h"

int LLVMFuzzerInitialize(int *n_arguments, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes);

int LLVMFuzzerInitialize(int *n_arguments, char ***arguments)
{
  (void)n_arguments;
  (void)arguments;
  world_begin();
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
  input_at = input;
  input_end = input + bytes;
  memcpy(play_bus->base, pasts[play_choose(n_pasts)], world_bytes);
  world_play();
  return 0;
}
