/* SPDX-License-Identifier: Apache-2.0 */
#include "check/fingerprint.h"
#include "base/hash.h"

static inline uint64_t mix(uint64_t x)
{
  x *= UINT64_C(0x9fb21c651e98df25);
  return x ^ x >> 32;
}

/* Reads bytes of any type. */
static inline uint64_t word_at(const char *bytes, size_t place)
{
  uint64_t word;
  memcpy(&word, bytes + place * sizeof word, sizeof word);
  return word;
}

/* Two lanes, so that multiplications overlap.  What is small or alike, as ranks and process numbers are, must not be
 * distinguished by a seed of its own size: a rank of 1 and a stamp of 3 would look like a rank of 0 and a stamp of
 * 2.  So seeds are spread. */
static inline uint64_t hash_words(const void *bytes, size_t n_bytes, uint64_t seed)
{
  const size_t n = n_bytes / 8;
  uint64_t one = seed ^ UINT64_C(0x9e3779b97f4a7c15), other = seed ^ UINT64_C(0xbf58476d1ce4e5b9);
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    one = busq_hash_fold(word_at(bytes, i) ^ UINT64_C(0xa0761d6478bd642f), word_at(bytes, i + 1) ^ one);
    other = busq_hash_fold(word_at(bytes, i + 2) ^ UINT64_C(0xe7037ed1a0b428db), word_at(bytes, i + 3) ^ other);
  }
  for (; i < n; i++)
    one = busq_hash_fold(word_at(bytes, i) ^ UINT64_C(0x8ebc6af09c88c6e3), one ^ UINT64_C(0x589965cc75374cc3));
  return busq_hash_fold(one ^ UINT64_C(0x1d8e4e27c47d124f), other ^ n);
}

static uint64_t spread(uint32_t number)
{
  return mix((number + 1) * UINT64_C(0xd6e8feb86659fd93));
}

static uint64_t hash_packet(const busq_order_packet *packet, uint32_t rank)
{
  return hash_words(packet, sizeof *packet, spread(rank));
}

static bool is_same_channel(const busq_order_packet *one, const busq_order_packet *other)
{
  return one->from == other->from && one->unused == other->unused;
}

/* How many older packets are in its channel, if that keeps the order. */
static uint32_t rank_of(const busq_model *model, const busq_order_packet *packets, uint32_t place)
{
  uint32_t rank = 0;
  for (uint32_t before = 0; model->is_fifo && before < place; before++)
    rank += is_same_channel(&packets[before], &packets[place]);
  return rank;
}

/* ---- one move's changes ---- */

void busq_model_print_process(const busq_model *model, void *state, uint32_t process)
{
  uint64_t *print = &busq_model_prints(state)[process];
  busq_model_head *head = busq_model_head_of(state);
  head->order_sum -= *print;
  *print = hash_words(busq_model_order_of(model, state, process), model->order_bytes, spread(process));
  head->order_sum += *print;
}

void busq_model_print_added(const busq_model *model, void *state)
{
  busq_model_head *head = busq_model_head_of(state);
  const busq_order_packet *packets = busq_model_packets_of(model, state);
  const uint32_t last = head->n_packets - 1;
  head->packet_sum += hash_packet(&packets[last], rank_of(model, packets, last));
}

/* The younger packets of its channel move up. */
void busq_model_print_removed(const busq_model *model, void *state, uint32_t place)
{
  busq_model_head *head = busq_model_head_of(state);
  const busq_order_packet *packets = busq_model_packets_of(model, state);
  uint32_t rank = rank_of(model, packets, place);
  head->packet_sum -= hash_packet(&packets[place], rank);
  for (uint32_t after = place + 1; model->is_fifo && after < head->n_packets; after++)
    if (is_same_channel(&packets[place], &packets[after])) {
      head->packet_sum += hash_packet(&packets[after], rank);
      head->packet_sum -= hash_packet(&packets[after], ++rank);
    }
}

void busq_model_print_again(const busq_model *model, void *state)
{
  busq_model_head *head = busq_model_head_of(state);
  const busq_order_packet *packets = busq_model_packets_of(model, state);
  for (uint32_t process = 0; process < model->config.n_processes; process++)
    busq_model_print_process(model, state, process);
  head->packet_sum = 0;
  for (uint32_t place = 0; place < head->n_packets; place++)
    head->packet_sum += hash_packet(&packets[place], rank_of(model, packets, place));
}

/* ---- the whole ---- */

uint64_t busq_model_fingerprint(const busq_model *model, const void *state)
{
  const busq_model_head *head = busq_model_head_of(state);
  const uint64_t counts = head->n_moves ^ (uint64_t)head->n_doubled << 32 ^ (uint64_t)head->n_lost << 40 ^
                          (uint64_t)head->job << 48 ^ (uint64_t)head->job_sender << 56;
  const uint64_t seed = mix(counts + mix(head->faults + mix(head->packet_sum + mix(head->order_sum))));
  const char *history = (const char *)state + model->processes_at;
  const uint64_t whole = hash_words(history, model->orders_at - model->processes_at, seed);
  return whole ? whole : 1; /* 0 is for tables, where nothing stands */
}

/* ---- under other names ---- */

uint32_t busq_model_n_roles(const busq_model *model)
{
  const uint32_t n = model->config.order->n_roles;
  return model->config.behaviour == BUSQ_CHECK_JOB && n == 0 ? 1 : n;
}

/* Where one step delivers several messages in the order of names, an answer to the first of them sees names. */
bool busq_model_is_symmetric(const busq_model *model)
{
  const busq_model_config *config = &model->config;
  const busq_order *order = config->order;
  return order->rename && !(config->options & order->options_by_name) && !config->destinations && !config->counts &&
         !(order->delivers_by_name && config->behaviour == BUSQ_CHECK_REPLY);
}

uint8_t busq_model_rename_set(uint8_t set, const uint32_t *names)
{
  uint8_t renamed = 0;
  for (uint32_t rest = set; rest; rest &= rest - 1)
    renamed |= (uint8_t)(1u << names[__builtin_ctz(rest)]);
  return renamed;
}

static void rename_bytes(const uint8_t *from, uint8_t *to, uint32_t n, const uint32_t *names)
{
  for (uint32_t process = 0; process < n; process++)
    to[names[process]] = from[process];
}

static uint32_t rename_index(const busq_model *model, uint32_t index, const uint32_t *names)
{
  return names[index / model->config.n_messages] * model->config.n_messages + index % model->config.n_messages;
}

static uint8_t rename_logged(const busq_model *model, uint8_t logged, const uint32_t *names)
{
  const uint32_t index = rename_index(model, logged & ~(uint32_t)BUSQ_MODEL_SEND, names);
  return (uint8_t)(index | (logged & BUSQ_MODEL_SEND));
}

/* A vector clock has a word per process; a matrix clock the versions of its rows, and the rows. */
static void rename_clock(const busq_model *model, const uint32_t *from, uint32_t *to, const uint32_t *names)
{
  const uint32_t n = model->config.n_processes;
  for (uint32_t row = 0; row * n < model->clock_words; row++) {
    uint32_t *to_row = to + (row ? 1 + names[row - 1] : 0) * n;
    for (uint32_t process = 0; process < n; process++)
      to_row[names[process]] = from[row * n + process];
  }
}

static void rename_process(const busq_model *model, const void *state, char *renamed, uint32_t process,
                           const uint32_t *names)
{
  const busq_model_process *from = busq_model_process_of(model, state, process);
  busq_model_process *to = busq_model_process_of(model, renamed, names[process]);
  const uint32_t n = model->config.n_processes;
  *to = *from;
  rename_bytes(from->knows, to->knows, n, names);
  rename_bytes(from->late, to->late, n, names);
  for (uint32_t place = 0; place < busq_model_n_senders(model, from); place++)
    to->senders[place] = (uint8_t)names[from->senders[place]];
  const uint8_t *log = busq_model_log_of(model, state, process);
  uint8_t *renamed_log = busq_model_log_of(model, renamed, names[process]);
  for (uint32_t place = 0; place < model->log_bytes; place++)
    renamed_log[place] = place < from->n_logged ? rename_logged(model, log[place], names) : 0;
}

static void rename_message(const busq_model *model, const void *state, char *renamed, uint32_t index,
                           const uint32_t *names)
{
  const busq_model_message *from = busq_model_message_at(model, state, index);
  const uint32_t new_index = rename_index(model, index, names);
  busq_model_message *to = busq_model_message_at(model, renamed, new_index);
  *to = *from;
  to->destinations = busq_model_rename_set(from->destinations, names);
  to->delivered = busq_model_rename_set(from->delivered, names);
  to->kept = busq_model_rename_set(from->kept, names);
  rename_bytes(from->clock, to->clock, model->config.n_processes, names);
  rename_clock(model, busq_model_clock_of(model, state, index), busq_model_clock_of(model, renamed, new_index), names);
}

static void rename_sides(const busq_model *model, const void *state, char *renamed, const uint32_t *names)
{
  const uint32_t n = model->config.n_processes;
  if (model->config.behaviour != BUSQ_CHECK_INFORMED)
    return;
  for (uint32_t index = 0; index < model->n_all; index++)
    rename_bytes(busq_model_side_clock_of(model, state, index),
                 busq_model_side_clock_of(model, renamed, rename_index(model, index, names)), n, names);
  for (uint32_t process = 0; process < n; process++)
    rename_bytes(busq_model_side_late_of(model, state, process), busq_model_side_late_of(model, renamed, names[process]), n,
                 names);
}

/* Packets keep their places. */
static void rename_packet(const busq_order_packet *from, busq_order_packet *to, const uint32_t *names)
{
  *to = *from;
  to->from = names[from->from];
  to->unused = names[from->unused];
  if (from->message)
    to->message = busq_message_name(names[busq_message_origin(from->message)], busq_message_number(from->message));
}

static void rename_head(const void *state, char *renamed, const uint32_t *names)
{
  const busq_model_head *from = busq_model_head_of(state);
  busq_model_head *to = busq_model_head_of(renamed);
  *to = *from;
  to->job_sender = from->job ? (uint8_t)names[from->job_sender] : 0;
  to->packet_sum = to->order_sum = 0;
}

void busq_model_rename(const busq_model *model, const void *state, char *renamed, const uint32_t *names)
{
  rename_head(state, renamed, names);
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    char *order = busq_model_order_of(model, renamed, names[process]);
    memset(order + model->order_bytes - 8, 0, 8); /* what rounding up has added */
    model->config.order->rename(busq_model_order_of(model, state, process), order, names);
    busq_model_prints(renamed)[names[process]] = 0;
    busq_model_print_process(model, renamed, names[process]);
    rename_process(model, state, renamed, process, names);
  }
  memset(renamed + model->messages_at, 0, model->logs_at - model->messages_at);
  memset(renamed + model->clocks_at, 0, model->orders_at - model->clocks_at);
  rename_sides(model, state, renamed, names);
  for (uint32_t index = 0; index < model->n_all; index++)
    if (busq_model_message_at(model, state, index)->destinations)
      rename_message(model, state, renamed, index, names);
  busq_model_head *head = busq_model_head_of(renamed);
  const uint32_t n_packets = head->n_packets;
  for (head->n_packets = 1; head->n_packets <= n_packets; head->n_packets++) {
    const uint32_t place = head->n_packets - 1;
    rename_packet(&busq_model_packets_of(model, state)[place], &busq_model_packets_of(model, renamed)[place], names);
    busq_model_print_added(model, renamed);
  }
  head->n_packets = n_packets;
}

uint64_t busq_model_fingerprint_as(const busq_model *model, const void *state, const uint32_t *names)
{
  _Alignas(8) char renamed[busq_model_bytes(model, state)];
  busq_model_rename(model, state, renamed, names);
  return busq_model_fingerprint(model, renamed);
}

/* ---- the class ---- */

/* The most common processors do not count bits. */
static uint32_t count_bits(uint8_t set)
{
  uint32_t pairs = set - (set >> 1 & 0x55u);
  pairs = (pairs & 0x33u) + (pairs >> 2 & 0x33u);
  return (pairs + (pairs >> 4)) & 0xfu;
}

/* The look of a process without names. */
static uint64_t signature_of(const busq_model *model, const void *state, uint32_t process)
{
  const busq_model_process *self = busq_model_process_of(model, state, process);
  uint64_t sum = hash_words(self, 8, spread(0));
  for (uint32_t other = 0; other < model->config.n_processes; other++)
    sum += mix((uint64_t)self->knows[other] << 16 | (uint64_t)self->late[other] << 8 | (other == process));
  for (uint32_t number = 0; number < self->n_submitted; number++) {
    const busq_model_message *message =
        busq_model_message_at(model, state, process * model->config.n_messages + number);
    sum += mix((uint64_t)number << 32 | (uint64_t)count_bits(message->destinations) << 24 |
               (uint64_t)count_bits(message->delivered) << 16 | (uint64_t)message->stamp << 8 | message->is_done);
  }
  const busq_order_packet *packets = busq_model_packets_of(model, state);
  for (uint32_t place = 0; place < busq_model_head_of(state)->n_packets; place++) {
    const busq_order_packet *packet = &packets[place];
    const uint64_t what = (uint64_t)packet->kind << 32 | busq_message_number(packet->message);
    if (packet->from == process)
      sum += mix(what << 1 | 1);
    if (packet->unused == process)
      sum += mix(what << 1);
  }
  return sum;
}

/* The next arrangement of a[first..end), all of them in turn, beginning and ending with the ascending one; false at
 * that end. */
static bool permute(uint32_t *a, uint32_t first, uint32_t end)
{
  uint32_t rising = end - 1;
  while (rising > first && a[rising - 1] > a[rising])
    rising--;
  const bool is_last = rising == first;
  for (uint32_t low = rising, high = end; low + 1 < high; low++) {
    const uint32_t swapped = a[low];
    a[low] = a[--high];
    a[high] = swapped;
  }
  if (is_last)
    return false;
  uint32_t next = rising;
  while (a[next] < a[rising - 1])
    next++;
  const uint32_t swapped = a[next];
  a[next] = a[rising - 1];
  a[rising - 1] = swapped;
  return true;
}

/* Sorts the processes by their signatures; those that look alike by number. */
static void line_up(const busq_model *model, const uint64_t *signatures, uint32_t *line)
{
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    uint32_t place = process;
    for (; place > busq_model_n_roles(model) && signatures[line[place - 1]] > signatures[process]; place--)
      line[place] = line[place - 1];
    line[place] = process;
  }
}

enum { LINES_MAX = 720 }; /* of larger groups that look alike, some classes are looked at more than once */

/* The next line in which only processes that look alike have changed places; false where there is none. */
static bool line_up_next(const busq_model *model, const uint64_t *signatures, uint32_t *line)
{
  const uint32_t n = model->config.n_processes;
  uint32_t end;
  for (uint32_t first = busq_model_n_roles(model); first < n; first = end) {
    end = first + 1;
    while (end < n && signatures[line[end]] == signatures[line[first]])
      end++;
    if (permute(line, first, end))
      return true;
  }
  return false;
}

uint64_t busq_model_fingerprint_of_class(const busq_model *model, const void *state)
{
  const uint32_t n = model->config.n_processes;
  uint64_t signatures[BUSQ_MODEL_PROCESSES_MAX];
  uint32_t line[BUSQ_MODEL_PROCESSES_MAX], names[BUSQ_MODEL_PROCESSES_MAX];
  for (uint32_t process = 0; process < n; process++)
    signatures[process] = signature_of(model, state, process);
  line_up(model, signatures, line);
  uint64_t least = UINT64_MAX;
  uint32_t n_tried = 0;
  do {
    for (uint32_t place = 0; place < n; place++)
      names[line[place]] = place;
    const uint64_t print = busq_model_fingerprint_as(model, state, names);
    least = print < least ? print : least;
  } while (++n_tried < LINES_MAX && line_up_next(model, signatures, line));
  /* The least of many are small numbers, and would crowd where sets keep these: spread again, one to one. */
  const uint64_t even = mix(mix(least));
  return even ? even : 1;
}
