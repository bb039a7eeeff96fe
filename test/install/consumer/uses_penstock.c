// SPDX-License-Identifier: Apache-2.0

/* uses_penstock VERSION: does the installed library answer, and with the version it was installed as? */
#include <penstock/penstock.h>
#include <stdio.h>
#include <string.h>

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  printf("penstock %s, wanted %s\n", penstock_version(), arguments[1]);
  return strcmp(penstock_version(), arguments[1]) == 0 ? 0 : 1;
}
