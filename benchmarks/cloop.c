/* The yardstick: the least that reading a node's sensors can cost. Reads the same files as our reader, on descriptors that
 * stay open, and decodes them as a C programmer would: strtoull for numbers, about 20 fields out of gpu_metrics.
 *
 * Argument: a list of files, one a line:
 *     n SIZE PATH                     a number
 *     t SIZE PATH                     a text: read, and searched for the '*' of pp_dpm_*
 *     m SIZE COUNTER PATH             gpu_metrics, with the offset of a field that changes from tick to tick
 *     f OFFSET WIDTH                  a field to pick out of every gpu_metrics
 * Orders on standard input, one a line: TICKS PAUSE_US DECODE. The answer is one line: nanoseconds of CPU of each tick.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_FILES = 1024, MOST_FIELDS = 64, BUFFER = 4097 };

static struct { char kind; int descriptor, writer; size_t size; off_t counter; } files[MOST_FILES];
static struct { size_t offset; int width; } fields[MOST_FIELDS];
static int file_count, field_count;
static double values[MOST_FILES + MOST_FILES * MOST_FIELDS];

/* Where the last of several digits is; -1 where there is only one. */
static off_t last_digit(int descriptor)
{
    char text[64];
    ssize_t length = pread(descriptor, text, sizeof text, 0);
    off_t digits = 0;
    while (digits < length && text[digits] >= '0' && text[digits] <= '9') digits++;
    return digits > 1 ? digits - 1 : -1;
}

static void load(const char *list)
{
    char line[4096], path[4096];
    FILE *input = fopen(list, "r");
    if (!input) { perror(list); exit(2); }
    while (fgets(line, sizeof line, input)) {
        size_t size = 0; long counter = -1; int width;
        if (sscanf(line, "f %zu %d", &size, &width) == 2 && field_count < MOST_FIELDS) {
            fields[field_count].offset = size;
            fields[field_count++].width = width;
            continue;
        }
        int good = line[0] == 'm' ? sscanf(line + 1, "%zu %ld %4095[^\n]", &size, &counter, path) == 3
                                  : sscanf(line + 1, "%zu %4095[^\n]", &size, path) == 2;
        if (!good || file_count == MOST_FILES || size >= BUFFER) { fprintf(stderr, "bad line: %s", line); exit(2); }
        files[file_count].kind = line[0];
        files[file_count].size = size;
        files[file_count].counter = counter;
        files[file_count].descriptor = open(path, O_RDONLY | O_CLOEXEC);
        files[file_count].writer = line[0] != 't' ? open(path, O_WRONLY | O_CLOEXEC) : -1;
        if (line[0] == 'n') files[file_count].counter = last_digit(files[file_count].descriptor);
        if (files[file_count++].descriptor < 0) { perror(path); exit(2); }
    }
    fclose(input);
}

/* What a busy card does between two readings: every number moves, and the time stamp in gpu_metrics. */
static void change(uint64_t tick)
{
    char digit = '1' + tick % 2;
    for (int i = 0; i < file_count; i++) {
        if (files[i].counter < 0 || files[i].writer < 0) continue;
        const void *what = files[i].kind == 'm' ? (const void *)&tick : &digit;
        size_t size = files[i].kind == 'm' ? sizeof tick : 1;
        if (pwrite(files[i].writer, what, size, files[i].counter) != (ssize_t)size) exit(3);
    }
}

static void tick(int decode)
{
    static char buffer[BUFFER];
    double *value = values;
    for (int i = 0; i < file_count; i++) {
        ssize_t length = pread(files[i].descriptor, buffer, files[i].size, 0);
        if (length < 0) { *value++ = -1; continue; }
        if (!decode) continue;
        buffer[length] = 0;
        if (files[i].kind == 'n') {
            *value++ = (double)strtoull(buffer, NULL, 10);
        } else if (files[i].kind == 't') {
            char *star = strchr(buffer, '*');
            while (star && star > buffer && star[-1] != '\n') star--;
            char *colon = star ? strchr(star, ':') : NULL;
            *value++ = colon ? (double)strtoull(colon + 1, NULL, 10) * 1e6 : -1;
        } else {
            for (int k = 0; k < field_count; k++) {
                uint64_t field = 0;
                if (fields[k].offset + fields[k].width <= (size_t)length)
                    memcpy(&field, buffer + fields[k].offset, fields[k].width);
                *value++ = (double)field;
            }
        }
    }
}

static uint64_t cpu_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    load(argv[1]);
    int ticks, pause_us, decode;
    static uint64_t counter = 1;
    while (scanf("%d %d %d", &ticks, &pause_us, &decode) == 3) {
        for (int i = 0; i < ticks; i++) {
            change(counter++);
            if (pause_us) usleep(pause_us);
            uint64_t before = cpu_nanoseconds();
            tick(decode);
            printf("%lu ", (unsigned long)(cpu_nanoseconds() - before));
        }
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
