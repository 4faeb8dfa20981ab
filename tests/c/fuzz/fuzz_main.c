/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target on files, or on all files of directories, one after the other: for compilers without libFuzzer, and for
 * keeping what was once found from coming back.
 *
 *      fuzz_receive_inputs FILE|DIRECTORY ...
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define INPUT_BYTES_MAX ((size_t)1 << 20)

int LLVMFuzzerInitialize(int *n_arguments, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes);

static unsigned long n_run;

static void run_file(const char *path)
{
  FILE *file = fopen(path, "rb");
  uint8_t *input = malloc(INPUT_BYTES_MAX);
  if (!file || !input) {
    perror(path);
    exit(2);
  }
  const size_t bytes = fread(input, 1, INPUT_BYTES_MAX, file);
  fclose(file);
  /* The last line that is printed names the input that ends us; exactly as long, so that reading beyond it is noticed. */
  fprintf(stderr, "%s\n", path);
  uint8_t *exact = malloc(bytes ? bytes : 1);
  for (size_t i = 0; exact && i < bytes; i++)
    exact[i] = input[i];
  free(input);
  if (exact)
    (void)LLVMFuzzerTestOneInput(exact, bytes);
  free(exact);
  n_run++;
}

static void run_path(const char *path)
{
  struct stat status;
  char inside[4096];
  if (stat(path, &status) < 0) {
    perror(path);
    exit(2);
  }
  if (!S_ISDIR(status.st_mode)) {
    run_file(path);
    return;
  }
  DIR *directory = opendir(path);
  for (const struct dirent *entry; directory && (entry = readdir(directory));) {
    if (entry->d_name[0] == '.')
      continue;
    snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
    run_path(inside);
  }
  if (directory)
    closedir(directory);
}

int main(int n_arguments, char **arguments)
{
  LLVMFuzzerInitialize(&n_arguments, &arguments);
  for (int i = 1; i < n_arguments; i++)
    run_path(arguments[i]);
  printf("%lu inputs\n", n_run);
  return n_run == 0;
}
