// `jobman mark` on a worker: a small script on PATH of the program, because nothing is installed there. It appends one
// line to the metrics file of the run. One write with O_APPEND is atomic, so several processes may report at once.
// `src/cli/commands/mark.ts` does the same for an installed jobman.

/** POSIX shell. Exits with 2 and a message for a wrong argument, and with 1 if the line cannot be written. */
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
for pair; do
  name=\${pair%%=*}
  value=\${pair#*=}
  case $pair in *=*) ;; *) fail 2 "\\"$pair\\" is not name=value." ;; esac
  case $name in '' | *[!A-Za-z0-9_./%@-]*) fail 2 "\\"$name\\" is not a name of a metric: letters, digits and _ . / % @ -" ;; esac
  case \${value#[-+]} in
    [Nn][Aa][Nn] | [Ii][Nn][Ff] | [Ii][Nn][Ff][Ii][Nn][Ii][Tt][Yy]) ;;
    '' | . | *[!0-9.eE+-]* | [eE]* | *[eE+-] | *[0-9.][+-]* | *.*.*) fail 2 "\\"$value\\" is not a number (\${name}=)." ;;
  esac
  line="$line $name=$value"
done
[ \${#line} -le 4000 ] || fail 2 'These are more than 4,000 characters; report them in several calls.'
now=$(date +%s%3N 2>/dev/null)
case $now in '' | *[!0-9]*) now=$(date +%s)000 ;; esac
printf '%s%s\\n' "$now" "$line" 2>/dev/null >>"$JOBMAN_METRICS" || fail 1 "The file $JOBMAN_METRICS cannot be written."
`;
