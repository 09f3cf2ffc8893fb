/* A small libamd_smi.so for tests: answers the calls that rocmwatch uses, from the files of a tree, and misbehaves on
 * demand. The layouts are those of the Python wrapper 7.0.2. Every other function that the wrapper wants is generated
 * beside this file and answers 2 (not supported).
 *
 * It is told what to do by the file `control` in its own folder, read anew at each call, a line each:
 *
 *     root DIR              answer from DIR/sys; without it, from /sys
 *     version A B C         what amdsmi_get_lib_version says; `version late A B C`: only after the start
 *     CALL ACTION           CALL is a function without its prefix (temp_metric, init, ...), or `all`: each but init
 *
 * ACTION is one of: a status to answer with; hang; slow SECONDS; abort; crash; print; garbage; and, for what stands for
 * "not known" in one version or another, ones (all bits set), zero, 255.
 * Where there is a file `calls` beside it, each call is written there: its name and the GPU's address.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 2, NOT_INIT = 32, DRIVER_NOT_LOADED = 34, MOST = 64 };

typedef struct { uint32_t major, minor, release, padding; const char *build; } version_t;
typedef struct { uint32_t clk, min_clk, max_clk; uint8_t locked, deep_sleep, padding[2]; uint32_t reserved[4]; } clk_info_t;
typedef struct { uint32_t gfx, umc, mm, reserved[13]; } engine_usage_t;
typedef struct {
    uint64_t socket_power;
    uint32_t current_socket_power, average_socket_power;
    uint64_t gfx_voltage, soc_voltage, mem_voltage;
    uint32_t power_limit, padding;
    uint64_t reserved[18];
} power_info_t;
struct gpu { char pci[16], device[512], hwmon[768]; uint64_t bdf_id; };

static struct gpu gpus[MOST];
static uint32_t gpu_count;
static int started;

/* What it is told */

static void beside(const char *name, char *path, size_t size) {
    Dl_info info;
    dladdr((void *)beside, &info);
    snprintf(path, size, "%s", info.dli_fname);
    snprintf(strrchr(path, '/') + 1, 64, "%s", name);
}

static int told(const char *key, char *value, size_t size) {
    char path[600], line[600];
    size_t length = strlen(key);
    beside("control", path, sizeof path);
    FILE *file = fopen(path, "r");
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file))
        if (!strncmp(line, key, length) && line[length] == ' ') {
            snprintf(value, size, "%s", line + length + 1);
            value[strcspn(value, "\n")] = 0;
            found = 1;
        }
    if (file) fclose(file);
    return found;
}

static void note(const char *call, const struct gpu *gpu) {
    char path[600], line[128];
    beside("calls", path, sizeof path);
    int file = open(path, O_WRONLY | O_APPEND);
    if (file < 0) return;
    int length = snprintf(line, sizeof line, "%s %s\n", call, gpu ? gpu->pci : "-");
    if (write(file, line, length) < 0) abort();
    close(file);
}

/* Does what it is told. Returns the status to answer with, or -1 to go on; then `out` may have been filled already. */
static int act(const char *call, const struct gpu *gpu, void *out, size_t size) {
    char action[128];
    note(call, gpu);
    if (!told(call, action, sizeof action) && (!strcmp(call, "init") || !told("all", action, sizeof action))) return -1;
    if (isdigit((unsigned char)action[0]) && strcmp(action, "255")) return atoi(action);
    if (!strcmp(action, "hang")) for (;;) pause();
    if (!strcmp(action, "abort")) abort();
    if (!strcmp(action, "crash")) *(volatile int *)0 = 1;
    if (!strncmp(action, "slow ", 5)) {
        double seconds = atof(action + 5);
        struct timespec pause_for = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
        nanosleep(&pause_for, NULL);
        return -1;
    }
    if (!strcmp(action, "print")) {
        printf("%s: a line on standard output\n", call);
        fflush(stdout);
        fprintf(stderr, "%s: a line on standard error\n", call);
        return -1;
    }
    memset(out, 0, size);
    if (!strcmp(action, "zero")) return SUCCESS;
    if (!strcmp(action, "ones")) memset(out, 0xFF, size);
    else if (!strcmp(action, "255")) for (size_t at = 0; at < size; at += 4) ((uint8_t *)out)[at] = 0xFF;
    else for (size_t at = 0; at < size; at++) ((uint8_t *)out)[at] = at % 8 < 5 ? (uint8_t)(0x5A + 37 * at) : 0;
    return SUCCESS;
}

#define ACT(call, gpu, out) do { int status_ = act(call, gpu, out, sizeof *(out)); if (status_ >= 0) return status_; } while (0)

/* The tree */

static int text(const char *folder, const char *name, char *value, size_t size) {
    char path[1400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    size_t length = fread(value, 1, size - 1, file);
    fclose(file);
    value[length] = 0;
    return 1;
}

static int number(const char *folder, const char *name, int64_t *value) {
    char digits[64];
    if (!text(folder, name, digits, sizeof digits) || !*digits) return 0;
    *value = strtoll(digits, NULL, 10);
    return 1;
}

static int add(const char *device) {
    char uevent[1024], folder[600];
    unsigned domain, bus, dev, function;
    if (!text(device, "uevent", uevent, sizeof uevent) || !strstr(uevent, "DRIVER=amdgpu")) return 0;
    const char *slot = strstr(uevent, "PCI_SLOT_NAME=");
    if (!slot || sscanf(slot, "PCI_SLOT_NAME=%x:%x:%x.%x", &domain, &bus, &dev, &function) != 4) return 0;
    struct gpu *gpu = &gpus[gpu_count++];
    snprintf(gpu->device, sizeof gpu->device, "%s", device);
    snprintf(gpu->pci, sizeof gpu->pci, "%04x:%02x:%02x.%x", domain & 0xFFFF, bus & 0xFF, dev & 0x1F, function & 7);
    gpu->bdf_id = (uint64_t)domain << 32 | (uint64_t)bus << 8 | dev << 3 | function;
    snprintf(folder, sizeof folder, "%s/hwmon", device);
    DIR *list = opendir(folder);
    for (struct dirent *entry; list && (entry = readdir(list));)
        if (!strncmp(entry->d_name, "hwmon", 5)) snprintf(gpu->hwmon, sizeof gpu->hwmon, "%s/%s", folder, entry->d_name);
    if (list) closedir(list);
    return 1;
}

uint32_t amdsmi_init(uint64_t flags) {
    char root[400] = "", device[512];
    (void)flags;
    int status = act("init", NULL, &root, 0);
    if (status > 0) return status;
    if (started) return SUCCESS;
    told("root", root, sizeof root);
    for (int card = 0; card < 128 && gpu_count < MOST; card++) {
        snprintf(device, sizeof device, "%s/sys/class/drm/card%d/device", root, card);
        add(device);
    }
    started = gpu_count > 0;
    return started ? SUCCESS : DRIVER_NOT_LOADED;
}

uint32_t amdsmi_get_lib_version(version_t *out) {
    char said[64] = "26 0 2";
    ACT("lib_version", NULL, out);
    told("version", said, sizeof said);
    int late = !strncmp(said, "late ", 5);
    if (late && !started) return NOT_INIT;
    out->build = "stub";
    return sscanf(said + 5 * late, "%u %u %u", &out->major, &out->minor, &out->release) == 3 ? SUCCESS : 1;
}

/* A socket each GPU */

uint32_t amdsmi_get_socket_handles(uint32_t *count, void **handles) {
    int status = act("socket_handles", NULL, NULL, 0);
    if (status >= 0) return status;
    if (!started) return NOT_INIT;
    for (uint32_t at = 0; handles && at < *count; at++) handles[at] = &gpus[at];
    *count = gpu_count;
    return SUCCESS;
}

uint32_t amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles) {
    if (handles) handles[0] = socket;
    *count = 1;
    return SUCCESS;
}

uint32_t amdsmi_get_gpu_bdf_id(struct gpu *gpu, uint64_t *out) {
    ACT("gpu_bdf_id", gpu, out);
    *out = gpu->bdf_id;
    return SUCCESS;
}

static uint32_t memory(const struct gpu *gpu, uint32_t kind, const char *part, uint64_t *out) {
    static const char *const kinds[] = {"vram", "vis_vram", "gtt"};
    char name[64];
    int64_t value;
    snprintf(name, sizeof name, "mem_info_%s_%s", kinds[kind % 3], part);
    if (!number(gpu->device, name, &value)) return NOT_SUPPORTED;
    *out = value;
    return SUCCESS;
}

uint32_t amdsmi_get_gpu_memory_total(struct gpu *gpu, uint32_t kind, uint64_t *out) {
    ACT("gpu_memory_total", gpu, out);
    return memory(gpu, kind, "total", out);
}

uint32_t amdsmi_get_gpu_memory_usage(struct gpu *gpu, uint32_t kind, uint64_t *out) {
    ACT("gpu_memory_usage", gpu, out);
    return memory(gpu, kind, "used", out);
}

/* The number N of the sensor tempN or freqN that has this label; 0 when there is none. */
static int labelled(const struct gpu *gpu, const char *kind, const char *label) {
    char name[64], said[64];
    for (int sensor = 1; sensor < 8; sensor++) {
        snprintf(name, sizeof name, "%s%d_label", kind, sensor);
        if (text(gpu->hwmon, name, said, sizeof said) && !strncmp(said, label, strlen(label))) return sensor;
    }
    return 0;
}

uint32_t amdsmi_get_temp_metric(struct gpu *gpu, uint32_t type, uint32_t metric, int64_t *out) {
    static const char *const labels[] = {"edge", "junction", "mem"};
    char name[64];
    ACT("temp_metric", gpu, out);
    const char *suffix = metric == 0 ? "input" : metric == 5 ? "crit" : metric == 7 ? "emergency" : NULL;
    int sensor = type < 3 ? labelled(gpu, "temp", labels[type]) : 0;
    snprintf(name, sizeof name, "temp%d_%s", sensor, suffix ? suffix : "");
    if (!sensor || !suffix || !number(gpu->hwmon, name, out)) return NOT_SUPPORTED;
    *out /= 1000;
    return SUCCESS;
}

uint32_t amdsmi_get_clock_info(struct gpu *gpu, uint32_t type, clk_info_t *out) {
    char levels[4096], name[64];
    int64_t hertz;
    ACT("clock_info", gpu, out);
    memset(out, 0, sizeof *out);
    const char *clock = type == 0 ? "sclk" : type == 4 ? "mclk" : NULL;
    snprintf(name, sizeof name, "pp_dpm_%s", clock ? clock : "");
    if (!clock || !text(gpu->device, name, levels, sizeof levels)) return NOT_SUPPORTED;
    out->min_clk = out->clk = ~0u;
    for (char *line = strtok(levels, "\n"); line; line = strtok(NULL, "\n")) {
        const char *after = strchr(line, ':');
        uint32_t mhz = after ? (uint32_t)atoi(after + 1) : 0;
        if (strchr(line, '*')) out->clk = mhz;
        if (mhz > out->max_clk) out->max_clk = mhz;
        if (mhz < out->min_clk) out->min_clk = mhz;
    }
    snprintf(name, sizeof name, "freq%d_input", labelled(gpu, "freq", clock));
    if (number(gpu->hwmon, name, &hertz)) out->clk = (uint32_t)(hertz / 1000000);
    out->deep_sleep = 255;
    return SUCCESS;
}

uint32_t amdsmi_get_power_info(struct gpu *gpu, power_info_t *out) {
    int64_t microwatts;
    ACT("power_info", gpu, out);
    memset(out, 0xFF, sizeof *out);
    out->socket_power = out->gfx_voltage = out->soc_voltage = out->mem_voltage = 0xFFFF;
    out->current_socket_power = out->average_socket_power = 0xFFFF;
    if (number(gpu->hwmon, "power1_input", &microwatts)) out->current_socket_power = microwatts / 1000000;
    if (number(gpu->hwmon, "power1_average", &microwatts)) out->average_socket_power = microwatts / 1000000;
    if (number(gpu->hwmon, "power1_cap", &microwatts)) out->power_limit = microwatts;
    return SUCCESS;
}

uint32_t amdsmi_get_gpu_activity(struct gpu *gpu, engine_usage_t *out) {
    int64_t percent;
    ACT("gpu_activity", gpu, out);
    memset(out, 0, sizeof *out);
    out->gfx = out->umc = out->mm = 0xFFFF;
    if (number(gpu->device, "gpu_busy_percent", &percent)) out->gfx = percent;
    if (number(gpu->device, "mem_busy_percent", &percent)) out->umc = percent;
    return SUCCESS;
}
