// `jobman mark` on a worker: a small script on PATH of the program, because nothing is installed there. It appends one
// line to the metrics file of the run. One write with O_APPEND is atomic, so several processes may report at once.
// `src/cli/commands/mark.ts` does the same for an installed jobman.

/**
 * POSIX shell. Writes the pairs that are right and warns about the others: one wrong value must neither lose the others
 * nor end a training. Exits with 2 and a message if no pair is right, and with 1 if the line cannot be written.
 */
export const markScript = `#!/bin/sh
fail() { printf 'jobman: %s\\n' "$2" >&2; exit "$1"; }
case \${1-} in
  mark) shift ;;
  *=*) ;;
  *) fail 2 "This is only \\\`jobman mark\\\` of a job's program, for example: jobman mark step=100 loss=0.3" ;;
esac
[ $# -gt 0 ] || fail 2 'Name the metrics, for example: jobman mark step=100 loss=0.3'
[ -n "\${JOBMAN_METRICS-}" ] || fail 2 'jobman mark works only in the program of a job: JOBMAN_METRICS is not set.'
line=
wrong() { printf 'jobman: %s\\n' "$1" >&2; }
for pair; do
  name=\${pair%%=*}
  value=\${pair#*=}
  case $pair in *=*) ;; *) wrong "\\"$pair\\" is not name=value."; continue ;; esac
  case $name in
    '' | *[!A-Za-z0-9_./%@-]*) wrong "\\"$name\\" is not the name of a metric: use letters, digits and _ . / % @ -"; continue ;;
  esac
  case \${value#[-+]} in
    [Nn][Aa][Nn] | [Ii][Nn][Ff] | [Ii][Nn][Ff][Ii][Nn][Ii][Tt][Yy]) ;;
    '' | . | *[!0-9.eE+-]* | [eE]* | *[eE+-] | *[0-9.][+-]* | *.*.*) wrong "\\"$value\\" is not a number (\${name}=)."; continue ;;
  esac
  line="$line $name=$value"
done
[ -n "$line" ] || exit 2
[ \${#line} -le 4000 ] || fail 2 'These are more than 4,000 characters; report them in several calls.'
now=$(date +%s%3N 2>/dev/null)
case $now in '' | *[!0-9]*) now=$(date +%s)000 ;; esac
printf '%s%s\\n' "$now" "$line" 2>/dev/null >>"$JOBMAN_METRICS" || fail 1 "The file $JOBMAN_METRICS cannot be written."
`;
