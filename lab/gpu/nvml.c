/* A STAND-IN for NVIDIA's libnvidia-ml.so.1: it plays the GPUs that a file describes, so that the real nvidia-smi can be
 * run where there is no GPU. Nothing of NVIDIA's is in it but the public header that it is built against.
 *
 * The file, LAB_GPUS or /etc/lab-gpus, has a line for each fact: `driver=580.95.05`, `*.name=NVIDIA H100 80GB HBM3` for
 * all GPUs, `3.ecc=2` for one. What no line tells is "not supported", as with a card that does not have it.
 */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LINES 4096
#define LONGEST 160
#define MEMBERS 512

static struct {
	char key[64];
	char value[LONGEST];
} facts[MOST_LINES];
static int known;

static const char *fact(const char *key)
{
	for (int at = known - 1; at >= 0; at--) /* the last line of a key counts */
		if (strcmp(facts[at].key, key) == 0)
			return facts[at].value;
	return NULL;
}

/* What the file says of one GPU: `3.key`, else `*.key`. */
static const char *of(nvmlDevice_t device, const char *key)
{
	char name[64];
	const char *own;

	snprintf(name, sizeof(name), "%d.%s", (int)(intptr_t)device - 1, key);
	own = fact(name);
	if (own)
		return own;
	snprintf(name, sizeof(name), "*.%s", key);
	return fact(name);
}

/* A GPU that fell off the bus answers nothing. */
static nvmlReturn_t gone(nvmlDevice_t device)
{
	return of(device, "lost") ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

static nvmlReturn_t number(nvmlDevice_t device, const char *key, unsigned long long *out)
{
	const char *value = of(device, key);
	nvmlReturn_t lost = gone(device);

	if (lost)
		return lost;
	if (!value)
		return NVML_ERROR_NOT_SUPPORTED;
	*out = strtoull(value, NULL, 0);
	return NVML_SUCCESS;
}

static nvmlReturn_t small(nvmlDevice_t device, const char *key, unsigned int *out)
{
	unsigned long long held = 0;
	nvmlReturn_t result = number(device, key, &held);

	if (result == NVML_SUCCESS)
		*out = (unsigned int)held;
	return result;
}

static nvmlReturn_t text(const char *value, char *out, unsigned int room)
{
	if (!value)
		return NVML_ERROR_NOT_SUPPORTED;
	if (strlen(value) >= room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, value);
	return NVML_SUCCESS;
}

static nvmlReturn_t start(void)
{
	const char *path = getenv("LAB_GPUS");
	FILE *file = fopen(path ? path : "/etc/lab-gpus", "r");
	char line[256];

	known = 0;
	if (!file)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	while (known < MOST_LINES && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%63[^=]=%159[^\n]", facts[known].key, facts[known].value) == 2)
			known++;
	}
	fclose(file);
	/* as the library itself does: 18 where the loaded module is of another version, 9 where there is none */
	return fact("error") ? atoi(fact("error")) : NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void) { return start(); }
nvmlReturn_t nvmlInitWithFlags(unsigned int flags) { (void)flags; return start(); }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }

const char *nvmlErrorString(nvmlReturn_t result)
{
	switch ((int)result) {
	case NVML_SUCCESS: return "Success";
	case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
	case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
	case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
	case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
	default: return "Unknown Error";
	}
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned int room) { return text(fact("driver"), out, room); }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned int room) { return text(fact("nvml"), out, room); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out)
{
	*out = fact("cuda") ? atoi(fact("cuda")) : 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *out)
{
	*out = fact("gpus") ? (unsigned int)atoi(fact("gpus")) : 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *out)
{
	unsigned int count;

	nvmlDeviceGetCount_v2(&count);
	if (index >= count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out = (nvmlDevice_t)(intptr_t)(index + 1);
	return gone(*out);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *out)
{
	*out = (unsigned int)(intptr_t)device - 1;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *out) { return nvmlDeviceGetIndex(device, out); }

#define TEXT(function, key) \
	nvmlReturn_t function(nvmlDevice_t device, char *out, unsigned int room) { return text(of(device, key), out, room); }
#define NUMBER(function, type, key) \
	nvmlReturn_t function(nvmlDevice_t device, type *out) { return small(device, key, (unsigned int *)out); }
#define LARGE(function, key) \
	nvmlReturn_t function(nvmlDevice_t device, unsigned long long *out) { return number(device, key, out); }
#define PAIR(function, type, first, second) \
	nvmlReturn_t function(nvmlDevice_t device, type *one, type *other) \
	{ \
		nvmlReturn_t result = small(device, first, (unsigned int *)one); \
		return result ? result : small(device, second, (unsigned int *)other); \
	}

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
NUMBER(nvmlDeviceGetBrand, nvmlBrandType_t, "brand")
NUMBER(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, "architecture")
NUMBER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, "persistence")
NUMBER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, "compute_mode")
NUMBER(nvmlDeviceGetPerformanceState, nvmlPstates_t, "performance")
NUMBER(nvmlDeviceGetPowerUsage, unsigned int, "power")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, "power_limit")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, "width")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, "width_most")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, "generation")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, "generation_most")
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, "generation_most")
LARGE(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle")
LARGE(nvmlDeviceGetSupportedClocksThrottleReasons, "throttle_known")
PAIR(nvmlDeviceGetEccMode, nvmlEnableState_t, "ecc", "ecc")
PAIR(nvmlDeviceGetMigMode, unsigned int, "mig", "mig")

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *out)
{
	(void)sensor;
	return small(device, "temperature", out);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out)
{
	out->memory = 0;
	return small(device, "busy", &out->gpu);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *out)
{
	const char *bus = of(device, "bus"); /* 0000:1b:00.0 */
	unsigned int domain, number_of_bus, slot;

	memset(out, 0, sizeof(*out));
	if (!bus || sscanf(bus, "%x:%x:%x", &domain, &number_of_bus, &slot) != 3)
		return NVML_ERROR_NOT_SUPPORTED;
	out->domain = domain;
	out->bus = number_of_bus;
	out->device = slot;
	out->pciDeviceId = of(device, "device") ? (unsigned int)strtoul(of(device, "device"), NULL, 0) << 16 | 0x10de : 0;
	snprintf(out->busIdLegacy, sizeof(out->busIdLegacy), "%04X:%02X:%02X.0", domain & 0xffff, number_of_bus, slot);
	snprintf(out->busId, sizeof(out->busId), "%08X:%02X:%02X.0", domain, number_of_bus, slot);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *out)
{
	nvmlPciInfo_t plain;
	nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(device, &plain);

	if (result)
		return result;
	out->domain = plain.domain;
	out->bus = plain.bus;
	out->device = plain.device;
	out->pciDeviceId = plain.pciDeviceId;
	out->pciSubSystemId = 0;
	out->baseClass = 3; /* display controller, 3D */
	out->subClass = 2;
	strcpy(out->busId, plain.busId);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *out)
{
	nvmlReturn_t result = number(device, "memory", &out->total);
	unsigned long long used = 0;

	if (result)
		return result;
	number(device, "memory_used", &used);
	out->reserved = 0;
	out->used = used;
	out->free = out->total - used;
	return NVML_SUCCESS;
}

static const char *errors_key(nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter)
{
	if (type == NVML_MEMORY_ERROR_TYPE_CORRECTED)
		return counter == NVML_VOLATILE_ECC ? "ecc_mended" : "ecc_mended_ever";
	return counter == NVML_VOLATILE_ECC ? "ecc_lost" : "ecc_lost_ever";
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
					 unsigned long long *out)
{
	return number(device, errors_key(type, counter), out);
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
					     nvmlEccCounterType_t counter, nvmlMemoryLocation_t where,
					     unsigned long long *out)
{
	if (where == NVML_MEMORY_LOCATION_DRAM)
		return number(device, errors_key(type, counter), out);
	if (where != NVML_MEMORY_LOCATION_SRAM)
		return NVML_ERROR_NOT_SUPPORTED;
	*out = 0;
	return gone(device);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *mended, unsigned int *lost,
				       unsigned int *pending, unsigned int *failed)
{
	nvmlReturn_t result = small(device, "remapped", lost);

	*mended = 0;
	if (result == NVML_SUCCESS)
		result = small(device, "remap_pending", pending);
	return result ? result : small(device, "remap_failed", failed);
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *out)
{
	unsigned int state;
	nvmlReturn_t result = small(device, "fabric", &state);

	if (result)
		return result;
	memset(out, 0, sizeof(*out));
	out->state = (nvmlGpuFabricState_t)state;
	return NVML_SUCCESS;
}

/* The later form begins with its version, whose layout holds the former from `clusterUuid` on. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *out)
{
	nvmlGpuFabricInfo_t plain;
	nvmlReturn_t result = nvmlDeviceGetGpuFabricInfo(device, &plain);

	if (result == NVML_SUCCESS) {
		out->status = NVML_SUCCESS;
		out->state = plain.state;
	}
	return result;
}

/* NVLink: `links=18`, of which `links_down` are inactive, the last ones. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	unsigned int links = 0, down = 0, speed = 0;

	small(device, "links", &links);
	small(device, "links_down", &down);
	small(device, "link_speed", &speed);
	for (int at = 0; at < count; at++) {
		nvmlFieldValue_t *one = &values[at];
		unsigned int link = one->scopeId;

		one->nvmlReturn = NVML_SUCCESS;
		one->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
		switch (one->fieldId) {
		case NVML_FI_DEV_NVLINK_LINK_COUNT: one->value.uiVal = links; break;
		case NVML_FI_DEV_NVLINK_GET_SPEED:
		case NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON: one->value.uiVal = speed; break;
		case NVML_FI_DEV_NVLINK_GET_STATE: one->value.uiVal = link < links - down; break;
		default: one->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
		}
	}
	return gone(device);
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *out)
{
	unsigned int links = 0, down = 0;
	nvmlReturn_t result = small(device, "links", &links);

	small(device, "links_down", &down);
	*out = link < links - down ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
	return link < links ? result : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	*set = (nvmlEventSet_t)(intptr_t)1;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) { (void)set; return NVML_SUCCESS; }

/* nvidia-smi asks for a table of functions that have no names, and takes "not supported" from each of them. */
static nvmlReturn_t nothing(void) { return NVML_ERROR_NOT_SUPPORTED; }

nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *uuid)
{
	static void *members[MEMBERS + 1];

	(void)uuid;
	members[0] = (void *)sizeof(members);
	for (int at = 1; at <= MEMBERS; at++)
		members[at] = (void *)nothing;
	*table = members;
	return NVML_SUCCESS;
}
