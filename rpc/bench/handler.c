/* SPDX-License-Identifier: BSD-2-Clause */
/* handler.c -- what the server does for a call; handler.h says what for */
#include "handler.h"

#include <errno.h>
#include <string.h>

#include "programs/kv.h"

/* work -- the paper's heavy calls compute for 100 microseconds */
static void work(const struct settings *settings)
{
	int64_t end;

	if (!settings->handler_us)
		return;
	end = bench_now() + settings->handler_us * INT64_C(1000);
	while (bench_now() < end)
		;
}

static int handle_object(const struct settings *settings, struct effects *effects,
			 struct request *request)
{
	size_t expected = sizeof(uint64_t) + (request->op == OP_WRITE ? settings->size : 0);
	uint64_t index;
	char *object;

	if (request->argument_len != expected)
		return -EINVAL;
	memcpy(&index, request->argument, sizeof(index));
	if (index >= settings->objects)
		return -EINVAL;
	object = effects->memory + sizeof(struct memory_header) + index * settings->size;
	/* Other clients' writes are not half there. */
	effects->exclude(effects);
	if (request->op == OP_WRITE)
		return effects->store(effects, object,
				      (const char *) request->argument + sizeof(index),
				      settings->size);
	if (request->reply_max < settings->size)
		return -ENOSPC;
	memcpy(request->reply, object, settings->size);
	request->reply_len = settings->size;
	return 0;
}

static int store_key(void *context, void *place, const void *data, size_t len)
{
	struct effects *effects = context;

	return effects->store(effects, place, data, len);
}

static int handle_key(const struct settings *settings, struct effects *effects,
		      struct request *request)
{
	struct kv kv = {.memory = effects->memory + sizeof(struct memory_header),
			.len = settings->memory_len - sizeof(struct memory_header),
			.value_max = settings->size,
			.store = store_key,
			.context = effects};

	effects->exclude(effects);
	return kv_handle(&kv, request->op - OP_KEY, request->argument, request->argument_len,
			 request->reply, request->reply_max, &request->reply_len);
}

int handle(const struct settings *settings, struct effects *effects, struct request *request)
{
	struct memory_header *header = (struct memory_header *) effects->memory;
	uint64_t handled;

	request->reply_len = 0;
	if (request->op == OP_HANDLED) {
		handled = __atomic_load_n(&header->handled, __ATOMIC_RELAXED);
		if (request->reply_max < sizeof(handled))
			return -ENOSPC;
		memcpy(request->reply, &handled, sizeof(handled));
		request->reply_len = sizeof(handled);
		return 0;
	}
	__atomic_fetch_add(&header->handled, 1, __ATOMIC_RELAXED);
	work(settings);
	if (request->op == OP_READ || request->op == OP_WRITE)
		return handle_object(settings, effects, request);
	return handle_key(settings, effects, request);
}
