/* SPDX-License-Identifier: BSD-2-Clause */
/* screen.c -- shows the model to a person */
#include <inttypes.h>
#include <string.h>

#include "info.h"

#define WIDTH 100

/* text, number, items -- of an object; what is missing is empty */
static const char *text(json_object *object, const char *key)
{
	json_object *value = json_object_object_get(object, key);

	return value ? json_object_get_string(value) : "";
}

static bool is_true(json_object *object, const char *key)
{
	return json_object_get_boolean(json_object_object_get(object, key));
}

static size_t items(json_object *object, const char *key, json_object **list)
{
	*list = json_object_object_get(object, key);
	return *list ? json_object_array_length(*list) : 0;
}

/* wrap -- words, in lines that begin with so many spaces but for the first */
static void wrap(FILE *out, size_t column, size_t indent, const char *words)
{
	bool first = true;

	while (*words) {
		size_t len = strcspn(words, " ");

		if (!first && column + 1 + len > WIDTH) {
			fprintf(out, "\n%*s", (int) indent, "");
			column = indent;
			first = true;
		}
		fprintf(out, "%s%.*s", first ? "" : " ", (int) len, words);
		column += len + !first;
		first = false;
		words += len;
		words += strspn(words, " ");
	}
	fputc('\n', out);
}

/* line -- a label, and words behind it */
static void line(FILE *out, size_t indent, const char *label, const char *words)
{
	if (*words) {
		fprintf(out, "%*s%-10s ", (int) indent, "", label);
		wrap(out, indent + 11, indent + 11, words);
	}
}

static void show_provider(json_object *model, FILE *out)
{
	json_object *provider = json_object_object_get(model, "provider");
	json_object *machine = json_object_object_get(model, "machine");
	json_object *settings = json_object_object_get(model, "settings");
	const char *path = text(provider, "path");
	char words[4 * INFO_TEXT];

	snprintf(words, sizeof(words),
		 "pmemverbs is %sfound by libfabric %s (from %s); FI_PROVIDER_PATH is %.256s",
		 is_true(provider, "found") ? "" : "NOT ", text(provider, "libfabric"),
		 text(provider, "from"), *path ? path : "not set");
	line(out, 0, "provider", words);
	snprintf(words, sizeof(words),
		 "core=%s domain=%s ddio=%s ordering=%s agent=%s commit=%s remote_read=%s "
		 "answer=%s flush=%s sigbus=%s (from %s)",
		 text(settings, "core"), text(settings, "domain"), text(settings, "ddio"),
		 text(settings, "ordering"), text(settings, "agent"), text(settings, "commit"),
		 text(settings, "remote_read"), text(settings, "answer"), text(settings, "flush"),
		 text(settings, "sigbus"), text(settings, "from"));
	line(out, 0, "settings", words);
	snprintf(words, sizeof(words),
		 "%s NUMA node%s; the processor %s write its caches back (from %s)",
		 text(machine, "nodes"), strcmp(text(machine, "nodes"), "1") ? "s" : "",
		 is_true(machine, "writes_back") ? "can" : "can NOT", text(machine, "from"));
	line(out, 0, "machine", words);
}

/* show_bit -- of a device: what it is, and how that was found out */
static void show_bit(json_object *device, const char *key, const char *name, FILE *out)
{
	json_object *bit = json_object_object_get(device, key);
	char words[2 * INFO_TEXT];

	if (!bit)
		return;
	snprintf(words, sizeof(words), "%s: %s (from %s)", name, text(bit, "state"),
		 text(bit, "from"));
	if (!strcmp(text(bit, "state"), "unknown"))
		snprintf(words, sizeof(words), "%s: unknown (%s)", name, text(bit, "from"));
	fprintf(out, "             ");
	wrap(out, 13, 15, words);
}

static void show_device(json_object *device, FILE *out)
{
	const char *node = text(device, "node"), *pci = text(device, "pci");
	char words[3 * INFO_TEXT];

	snprintf(words, sizeof(words), "%s %s: %s%s%s%s%s%s (from %s)", text(device, "core"),
		 text(device, "device"), text(device, "kind"), *pci ? ", " : "", pci,
		 *node ? ", node " : "", node, is_true(device, "offered") ? "" : ", NOT usable",
		 text(device, "from"));
	line(out, 0, "device", words);
	show_bit(device, "ddio", "DDIO", out);
	show_bit(device, "relaxed_ordering", "relaxed ordering", out);
	show_bit(device, "rdma_flush", "RDMA FLUSH", out);
}

static void show_advice(json_object *answer, const char *key, const char *label, FILE *out)
{
	json_object *list;
	size_t count = items(answer, key, &list);

	for (size_t i = 0; i < count; i++) {
		json_object *advice = json_object_array_get_idx(list, i);
		char words[3 * INFO_TEXT];
		const char *hint = text(advice, "hint");

		snprintf(words, sizeof(words), "%s%s%s", hint, *hint ? ": " : "",
			 text(advice, "text"));
		line(out, 4, label, words);
	}
}

static void show_answer(json_object *answer, FILE *out)
{
	const char *message = text(answer, "send_with_recv_mr");
	char words[3 * INFO_TEXT];

	snprintf(words, sizeof(words), "%s: %s", text(answer, "commit"),
		 text(answer, "commit_why"));
	line(out, 4, "commit", words);
	line(out, 4, "immediate", text(answer, "immediate"));
	line(out, 4, "chains", text(answer, "chains"));
	snprintf(words, sizeof(words), "%s: %s%s%s%s", text(answer, "send"),
		 text(answer, "send_why"), *message ? " (then: " : "", message,
		 *message ? ")" : "");
	line(out, 4, "send", words);
	show_advice(answer, "faster", "faster", out);
	show_advice(answer, "notes", "note", out);
}

/* show_way -- the devices, and what holds for them */
static void show_way(json_object *way, FILE *out)
{
	char words[3 * INFO_TEXT] = "";
	json_object *names;
	size_t count = items(way, "devices", &names);

	for (size_t i = 0; i < count; i++)
		snprintf(words + strlen(words), sizeof(words) - strlen(words), "%s%s",
			 i ? ", " : "",
			 json_object_get_string(json_object_array_get_idx(names, i)));
	fprintf(out, "  through ");
	wrap(out, 10, 10, words);
	show_answer(json_object_object_get(way, "answer"), out);
}

/* size_text -- in the largest unit that leaves a number of at least 1 */
static void size_text(uint64_t bytes, char *words, size_t size)
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	double number = (double) bytes;
	size_t unit = 0;

	for (; number >= 1024 && unit < sizeof(units) / sizeof(units[0]) - 1; unit++)
		number /= 1024;
	snprintf(words, size, ", %.*f %s", unit ? 1 : 0, number, units[unit]);
}

static void show_memory(json_object *memory, FILE *out)
{
	const char *mode = text(memory, "mode"), *node = text(memory, "node");
	json_object *ways, *bytes = json_object_object_get(memory, "bytes");
	size_t count = items(memory, "ways", &ways);
	char words[PATH_MAX + 3 * INFO_TEXT], size[32] = "";

	if (bytes)
		size_text(json_object_get_uint64(bytes), size, sizeof(size));
	snprintf(words, sizeof(words), "%s: %s%s%s%s%s%s", text(memory, "name"),
		 text(memory, "kind"), *mode ? ", " : "", mode, size, *node ? ", node " : "", node);
	fputc('\n', out);
	line(out, 0, "memory", words);
	snprintf(words, sizeof(words), "%s%s: %s", text(memory, "domain"),
		 is_true(memory, "declared") ? " (declared)" : "", text(memory, "survives"));
	line(out, 2, "domain", words);
	snprintf(words, sizeof(words), "%s (from %s)", text(memory, "what"), text(memory, "from"));
	line(out, 2, "found", words);
	line(out, 2, "cache", text(memory, "cache_from"));
	line(out, 2, "direct", text(memory, "direct"));
	for (size_t i = 0; i < count; i++)
		show_way(json_object_array_get_idx(ways, i), out);
}

static void show_warnings(json_object *model, FILE *out)
{
	json_object *list;
	size_t count = items(model, "warnings", &list);

	if (count)
		fputc('\n', out);
	for (size_t i = 0; i < count; i++) {
		json_object *warning = json_object_array_get_idx(list, i);
		bool loses = is_true(warning, "loses_data");
		char words[PATH_MAX + 4 * INFO_TEXT];

		snprintf(words, sizeof(words), "%s: %s", text(warning, "about"),
			 text(warning, "text"));
		line(out, 0, loses ? "DATA LOSS" : "warning", words);
	}
}

/* Targets */

static void show_counters(json_object *target, FILE *out)
{
	json_object *counters = json_object_object_get(target, "counters");

	if (!counters)
		return;
	fprintf(out, "\ncounters\n");
	json_object_object_foreach(counters, name, number)
		fprintf(out, "  %-18s %" PRIu64 "\n", name, json_object_get_uint64(number));
}

static void show_target(json_object *target, FILE *out)
{
	json_object *offers = json_object_object_get(target, "offers"), *list;
	size_t count = items(target, "memory", &list);
	char words[4 * INFO_TEXT];

	snprintf(words, sizeof(words), "%s (from %s)", text(target, "address"),
		 text(target, "from"));
	line(out, 0, "target", words);
	line(out, 0, "refused", text(target, "refused"));
	if (!offers)
		return;
	snprintf(words, sizeof(words),
		 "pmemverbs %s over %s, %s domain(s): domain=%s ddio=%s ordering=%s agent=%s "
		 "commit=%s",
		 text(offers, "provider"), text(offers, "core"), text(offers, "domains"),
		 text(offers, "domain"), text(offers, "ddio"), text(offers, "ordering"),
		 text(offers, "agent"), text(offers, "commit"));
	line(out, 0, "offers", words);
	if (!count)
		line(out, 0, "memory", "none is registered for commits now");
	for (size_t i = 0; i < count; i++) {
		json_object *region = json_object_array_get_idx(list, i);

		snprintf(words, sizeof(words), "%s region(s): %s, %s", text(region, "regions"),
			 text(region, "domain"), text(region, "survives"));
		line(out, 0, "memory", words);
		show_answer(json_object_object_get(region, "answer"), out);
	}
	show_counters(target, out);
}

void info_screen(json_object *model, FILE *out)
{
	json_object *target = json_object_object_get(model, "target"), *list;
	size_t count;

	if (target) {
		show_target(target, out);
		return;
	}
	show_provider(model, out);
	count = items(model, "devices", &list);
	for (size_t i = 0; i < count; i++)
		show_device(json_object_array_get_idx(list, i), out);
	count = items(model, "memory", &list);
	if (!count)
		line(out, 0, "memory",
		     "no region of persistent memory; name a file or device to look at it");
	for (size_t i = 0; i < count; i++)
		show_memory(json_object_array_get_idx(list, i), out);
	show_warnings(model, out);
}
