/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_EXPLORE_CHOICES_H
#define BUSQ_EXPLORE_CHOICES_H
/* The steps that can come next, and which of them have to be tried. */
#include "explore/actors.h"

typedef enum {
  CHOOSE_ALL,        /* each actor that can go on, and every fault */
  CHOOSE_BOUNDED,    /* the same, but only the actor that went on last may be hit by a fault */
  CHOOSE_PERSISTENT  /* of a persistent set; see explore.h */
} choice_rule;

/* The steps that can come next. */
uint32_t choices_find(choice *choices, choice_rule rule, uint32_t last);
/* No actor but a stopped one can go on, and no patience is left to lose. */
bool choices_is_standstill(void);
const char *choices_judge(void);

#endif /* BUSQ_EXPLORE_CHOICES_H */
