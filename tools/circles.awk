# SPDX-License-Identifier: BSD-2-Clause
# circles.awk -- which files of a folder call one another in a circle
#
# A unit is a .c file with the header of its name.  It calls another if its object uses a symbol of
# the other's, or if its text names an inline function of the other's header, or an inline function
# of its own header names a symbol of the other's.  It reads
#
#   define FILE SYMBOL     an object defines a symbol
#   use FILE SYMBOL        an object uses it
#   inline HEADER NAME     a header has a function with a body
#   name FILE NAME         a source names something; of a header only what is inside such functions
#
# For each edge on a circle it prints the shortest circle through it, each circle once:
# "FOLDER FILE -> SYMBOL -> FILE -> ... -> FILE".

function unit(file) {
	sub(/\.[ch]$/, "", file)
	return file
}

function folder(file) {
	return index(file, "/") ? substr(file, 1, index(file, "/") - 1) : "."
}

# shown UNIT -- the file to open
function shown(at) {
	return (at in has_source) ? at ".c" : at ".h"
}

function call(from, name, to) {
	if (from == to || folder(from) != folder(to) || (from, to) in by)
		return
	by[from, to] = name
	called[from] = called[from] " " to
}

# circle FROM TO -- the shortest way from TO back to FROM, by breadth first; "" if there is none
function circle(from, to,    queue, first, last, seen, at, next_units, count, i) {
	split("", before)
	first = last = 1
	queue[1] = to
	seen[to] = 1
	while (first <= last) {
		at = queue[first++]
		if (at == from)
			return 1
		count = split(called[at], next_units, " ")
		for (i = 1; i <= count; i++)
			if (!(next_units[i] in seen)) {
				seen[next_units[i]] = 1
				before[next_units[i]] = at
				queue[++last] = next_units[i]
			}
	}
	return 0
}

# show FROM TO -- the circle that has been found, from its first unit by name: so each is shown once
function show(from, to,    members, count, at, start, i, text) {
	count = 0
	for (at = from; at != to; at = before[at])
		members[count++] = at
	members[count++] = to
	# They are backwards: members[i] is called by members[i + 1], and the last by the first.
	start = 0
	for (i = 1; i < count; i++)
		if (members[i] < members[start])
			start = i
	text = shown(members[start])
	for (i = 0; i < count; i++) {
		from = members[(start - i + count) % count]
		to = members[(start - i - 1 + 2 * count) % count]
		text = text " -> " by[from, to] " -> " shown(to)
	}
	if (!(text in printed))
		print folder(members[0]) " " text
	printed[text] = 1
}

$1 == "define" || $1 == "inline" { home[$3] = unit($2) }
$1 == "define" && $2 ~ /\.c$/ { has_source[unit($2)] = 1 }
$1 == "use" || $1 == "name" { user[++uses] = unit($2); used[uses] = $3 }

END {
	for (i = 1; i <= uses; i++)
		if (used[i] in home)
			call(user[i], used[i], home[used[i]])
	for (pair in by) {
		split(pair, ends, SUBSEP)
		if (circle(ends[1], ends[2]))
			show(ends[1], ends[2])
	}
}
