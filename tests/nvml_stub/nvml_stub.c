/* Stands in for libnvidia-ml.so.1 in tests: answers what the file named by NVML_STUB_FILE says.
 *
 * A line of the file is `key = value`; the keys of a GPU begin with its number:
 *     driver = 570.124.06            init = 9 (nvmlInit answers this error)
 *     gpus = 8                       hang = FUNCTION, crash = FUNCTION (of the library)
 *     print = TEXT                   nvmlInit prints it to standard output
 *     0.bus = 00000000:1B:00.0       0.uuid, 0.name, 0.memory, 0.minor, 0.numa, 0.affinity = HEX words, lowest first
 *     0.mig = 1                      0.mig.2.uuid, .name, .memory, .gi, .ci
 *     0.link.3 = gpu 00000000:43:00.0     (or switch)
 *     0.handle = 15, 0.NAME = 15     the handle, or the function nvmlDeviceGetNAME of GPU 0, answers this error
 *     0.hang = FUNCTION              that function hangs for GPU 0
 * What is not said is not supported. Signatures and structures: NVML API reference guide.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SLOTS = 7, GPUS = 64, TEXT = 512 };

typedef struct { int gpu, mig; } Device;   /* what a handle points to; mig is -1 for a whole GPU */
typedef struct {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} PciInfo;
typedef struct { unsigned long long total, free, used; } Memory;

static Device devices[GPUS][SLOTS + 1];

/* The value of a key, 0 where it is not said. */
static char *say(const char *key) {
    static char line[TEXT];
    const char *path = getenv("NVML_STUB_FILE");
    FILE *file = path ? fopen(path, "rb") : 0;
    char *found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        char *equals = strstr(line, " = ");
        if (!equals) continue;
        *equals = 0;
        if (!strcmp(line, key)) {
            found = equals + 3;
            found[strcspn(found, "\n")] = 0;
        }
    }
    if (file) fclose(file);
    return found;
}

static char *say_of(Device *device, const char *what) {
    char key[TEXT];
    if (device->mig < 0) snprintf(key, sizeof key, "%d.%s", device->gpu, what);
    else snprintf(key, sizeof key, "%d.mig.%d.%s", device->gpu, device->mig, what);
    return say(key);
}

static void act(const char *key, const char *function) {
    char *value = say(key);
    if (!value || strcmp(value, function)) return;
    if (strstr(key, "crash")) abort();
    for (;;) pause();
}

/* What every function does first: hangs, crashes or gives the error that the file says. */
static int begin(Device *device, const char *function) {
    char key[TEXT];
    act("hang", function);
    act("crash", function);
    if (!device) return SUCCESS;
    snprintf(key, sizeof key, "%d.hang", device->gpu);
    act(key, function);
    char *error = say_of(device, function + strlen("nvmlDeviceGet"));
    return error ? atoi(error) : SUCCESS;
}

static int text(Device *device, const char *function, const char *what, char *to, unsigned length) {
    int error = begin(device, function);
    char *value = error ? 0 : device ? say_of(device, what) : say(what);
    if (error) return error;
    if (!value) return NOT_SUPPORTED;
    snprintf(to, length, "%s", value);
    return SUCCESS;
}

static int number(Device *device, const char *function, const char *what, unsigned *to) {
    int error = begin(device, function);
    char *value = error ? 0 : say_of(device, what);
    if (error) return error;
    if (!value) return NOT_SUPPORTED;
    *to = strtoul(value, 0, 0);
    return SUCCESS;
}

static int words(Device *device, const char *function, const char *what, unsigned size, unsigned long *to) {
    int error = begin(device, function);
    char *value = error ? 0 : say_of(device, what);
    if (error) return error;
    if (!value) return NOT_SUPPORTED;
    for (unsigned i = 0; i < size; i++) to[i] = *value ? strtoul(value, &value, 16) : 0;
    return SUCCESS;
}

static int bus_id(const char *value, PciInfo *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%s", value);
    return SUCCESS;
}

int nvmlInit_v2(void) {
    begin(0, "nvmlInit_v2");
    char *printed = say("print");
    if (printed) {
        puts(printed);
        fflush(stdout);
    }
    char *error = say("init");
    return error ? atoi(error) : SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }

const char *nvmlErrorString(int error) {
    return error == 15 ? "GPU is lost" : error == 999 ? "Unknown Error" : "some error";
}

int nvmlSystemGetDriverVersion(char *to, unsigned length) {
    return text(0, "nvmlSystemGetDriverVersion", "driver", to, length);
}

int nvmlSystemGetNVMLVersion(char *to, unsigned length) {
    return text(0, "nvmlSystemGetNVMLVersion", "nvml", to, length);
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    begin(0, "nvmlDeviceGetCount_v2");
    char *value = say("gpus");
    *count = value ? atoi(value) : 0;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **handle) {
    if (index >= GPUS) return INVALID;
    *handle = &devices[index][SLOTS];
    (*handle)->gpu = index;
    (*handle)->mig = -1;
    char *error = say_of(*handle, "handle");
    return error ? atoi(error) : SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(Device *device, PciInfo *pci) {
    int error = begin(device, "nvmlDeviceGetPciInfo");
    char *value = error ? 0 : say_of(device, "bus");
    return error ? error : value ? bus_id(value, pci) : NOT_SUPPORTED;
}

int nvmlDeviceGetUUID(Device *device, char *to, unsigned length) {
    return text(device, "nvmlDeviceGetUUID", "uuid", to, length);
}

int nvmlDeviceGetName(Device *device, char *to, unsigned length) {
    return text(device, "nvmlDeviceGetName", "name", to, length);
}

int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
    int error = begin(device, "nvmlDeviceGetMemoryInfo");
    char *value = error ? 0 : say_of(device, "memory");
    if (error) return error;
    if (!value) return NOT_SUPPORTED;
    memory->total = memory->free = strtoull(value, 0, 0);
    memory->used = 0;
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(Device *device, unsigned *to) {
    return number(device, "nvmlDeviceGetMinorNumber", "minor", to);
}

int nvmlDeviceGetNumaNodeId(Device *device, unsigned *to) {
    return number(device, "nvmlDeviceGetNumaNodeId", "numa", to);
}

int nvmlDeviceGetCpuAffinity(Device *device, unsigned size, unsigned long *to) {
    return words(device, "nvmlDeviceGetCpuAffinity", "affinity", size, to);
}

int nvmlDeviceGetMemoryAffinity(Device *device, unsigned size, unsigned long *to, unsigned scope) {
    (void)scope;
    return words(device, "nvmlDeviceGetMemoryAffinity", "memaffinity", size, to);
}

int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    int error = number(device, "nvmlDeviceGetMigMode", "mig", current);
    *pending = *current;
    return error;
}

int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) {
    *count = SLOTS;
    return begin(device, "nvmlDeviceGetMaxMigDeviceCount");
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned slot, Device **handle) {
    if (slot >= SLOTS) return INVALID;
    *handle = &devices[device->gpu][slot];
    (*handle)->gpu = device->gpu;
    (*handle)->mig = slot;
    return say_of(*handle, "uuid") ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(Device *device, unsigned *to) {
    return number(device, "nvmlDeviceGetGpuInstanceId", "gi", to);
}

int nvmlDeviceGetComputeInstanceId(Device *device, unsigned *to) {
    return number(device, "nvmlDeviceGetComputeInstanceId", "ci", to);
}

static char *link_of(Device *device, unsigned link) {
    char what[TEXT];
    snprintf(what, sizeof what, "link.%u", link);
    return say_of(device, what);
}

int nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *active) {
    int error = begin(device, "nvmlDeviceGetNvLinkState");
    *active = link_of(device, link) != 0;
    return error;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device *device, unsigned link, PciInfo *pci) {
    char *value = link_of(device, link);
    return value ? bus_id(strchr(value, ' ') + 1, pci) : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Device *device, unsigned link, unsigned *kind) {
    char *value = link_of(device, link);
    if (!value) return NOT_SUPPORTED;
    *kind = !strncmp(value, "gpu ", 4) ? 0 : !strncmp(value, "switch ", 7) ? 2 : 255;
    return SUCCESS;
}
