# SPDX-License-Identifier: BSD-2-Clause
# names.awk -- what the sources name outside of comments and strings
#
# It reads
#
#   inline HEADER NAME FIRST LAST    a header has a function with a body in these lines
#   sources                          once
#   FILE LINE                        each line of each file
#
# and prints, for circles.awk, lines "inline HEADER NAME" and "name FILE NAME", each once.

# code LINE -- without comments and literals; in_comment lasts from line to line
function code(line,    text) {
	text = ""
	while (line != "") {
		if (in_comment) {
			if (!match(line, /\*\//))
				return text
			in_comment = 0
		} else if (!match(line, /["\047]|\/[*\/]/)) {
			return text line
		} else {
			text = text substr(line, 1, RSTART - 1) " "
			line = substr(line, RSTART)
			if (line ~ /^\/\//)
				return text
			in_comment = line ~ /^\/\*/
			if (in_comment)
				RLENGTH = 2
			else if (!match(line, /^"([^"\\]|\\.)*"/) && !match(line, /^\047([^\047\\]|\\.)*\047/))
				RLENGTH = 1
			RSTART = 1
		}
		line = substr(line, RSTART + RLENGTH)
	}
	return text
}

!text && $1 == "inline" {
	print "inline", $2, $3
	for (i = $4; i <= $5; i++)
		inside[$2, i] = 1
	next
}

!text {
	text = 1
	next
}

{
	if ($1 != file) {
		file = $1
		line = in_comment = 0
		held = ""
		split("", named)
	}
	line++
	held = held substr($0, length(file) + 2)
	# The compiler joins such lines before it looks for anything else.
	if (sub(/\\$/, "", held))
		next
	rest = code(held)
	held = ""
	if (file ~ /\.h$/ && !((file, line) in inside))
		next
	count = split(rest, word, /[^A-Za-z0-9_]+/)
	for (i = 1; i <= count; i++)
		if (word[i] != "" && !(word[i] in named)) {
			named[word[i]] = 1
			print "name", file, word[i]
		}
}
