# SPDX-License-Identifier: BSD-2-Clause
# history.awk -- was each operation of fi_pmem_kv -o soak what a store may do?
#
# Reads the histories of all clients twice, sorted by time, "call" before "back".  Versions say in which order a key's
# writes have taken effect, so that order needs no search.  What is checked is linearizability, but for
# reads of a write that nobody was told of: a crash of the target may lose that, and another one gets its version.
#
# - No acknowledged write is lost: whoever begins later reads a version that is no smaller, and writes a larger one.
# - A version belongs to one write, and what is read was put, to this key.
# - Who finds nothing may: nothing was there, or something deletes it.

# Versions are printed with all their digits.
BEGIN { CONVFMT = "%.17g" }

function wrong(what)
{
	print "operation " client " " number ", " kind " of key " at ": " what
	failures++
}

# ended -- in the first reading: what is known of the operation in the end
function ended(op)
{
	if (what_of[op] == "get")
		return
	if ($5 == "ok") {
		version_of[op] = $6
		if ((key_of[op], $6) in write_of && write_of[key_of[op], $6] != op)
			wrong("its version " $6 " is another one's")
		write_of[key_of[op], $6] = op
	} else {
		not_made[op] = 1
	}
}

# began -- in the second reading
function began(op)
{
	least[op] = newest[at]
	begun[op] = 1
	# Nobody knows whether a DELETE that has not come back was made, and when.
	if (what_of[op] == "del" && !(op in not_made)) {
		version = op in version_of ? version_of[op] + 0 : 2 ^ 60
		if (version > deleted[at])
			deleted[at] = version
	}
}

function told(version)
{
	if (version > newest[at])
		newest[at] = version
}

function check_found(op, version, put)
{
	if (!(put in put_of) || key_of[put_of[put]] != at || put_of[put] in not_made || !(put_of[put] in begun)) {
		wrong("nobody has put " put)
		return
	}
	if (version < least[op] + 0)
		wrong("version " $6 " is older than " least[op])
	# If that was lost after it was read, the version is another one's later, but not when this read begins.
	if ((at, $6) in write_of && write_of[at, $6] != put_of[put] && (put_of[put] in version_of || version <= least[op] + 0))
		wrong("version " $6 " is not the one of " put)
	if (!(put_of[put] in version_of))
		return
	if (version != version_of[put_of[put]] + 0)
		wrong(put " was put as version " version_of[put_of[put]] ", not " $6)
	told(version)
}

function check_nothing(op, version)
{
	# Version 0: the target may have started anew since the key was deleted.
	if (!version && deleted[at] + 0 < least[op] + 0)
		wrong("version " least[op] " is lost")
	if (version && version < least[op] + 0)
		wrong("version " $6 " is older than " least[op])
	# A DELETE that nobody was told of may have been lost since.
	if (deleted[at] + 0 == 2 ^ 60 && version > least[op] + 0)
		return
	if (version && (at, $6) in write_of) {
		if (what_of[write_of[at, $6]] != "del")
			wrong("version " $6 " was not a DELETE")
		told(version)
	}
}

function check_back(op)
{
	if (kind == "get" && $5 == "ok") {
		check_found(op, $6 + 0, $7)
	} else if (kind == "get") {
		check_nothing(op, $6 + 0)
	} else if ($5 == "ok") {
		if ($6 + 0 <= least[op] + 0)
			wrong("its version " $6 " does not come behind " least[op])
		told($6 + 0)
	} else if (kind == "del" && $5 == "none") {
		check_nothing(op, 0)
	}
	count++
}

# A client that was killed may have written a part of a line.
NF != 7 { next }

{
	client = $3
	number = $4
	op = client "." number
}

FNR == NR && $1 == "call" {
	what_of[op] = $5
	key_of[op] = $6
	if ($5 == "put")
		put_of[$7] = op
}

FNR == NR && $1 == "back" { ended(op) }

FNR != NR {
	kind = what_of[op]
	at = key_of[op]
	if ($1 == "call")
		began(op)
	else
		check_back(op)
}

END {
	print count + 0 " operations were judged, and " failures + 0 " are wrong"
	exit failures || !count
}
