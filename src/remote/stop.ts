// Stop: asking an attempt's program to end, and ending it with all its children.

import { prelude } from './run-folder.ts';
import { quote } from './quote.ts';

/** How long a kill is repeated before what is left is reported: processes that wait in the kernel die late. */
const killTurns = 50;

/**
 * Prints one line: `gone` (nothing of it is alive, or will ever be), `asked <how many>` or `left <pids>`. An attempt that
 * has no folder yet gets one that says `never`, so that a launcher that is still on its way finds it taken. One whose folder
 * was taken away while its program runs is stopped by its mark, as any other; a launcher on its way carries the mark as
 * well, and is given a moment to find that it came too late.
 */
export function stopScript(
  root: string,
  stop: { readonly attempt: number; readonly mark: string; readonly how: 'ask' | 'kill'; readonly signal: string },
): string {
  return `
umask 077
root=${root}
dir=$root/attempt_${stop.attempt}
mark=${quote(stop.mark)}
${prelude}
mkdir -p "$root" || exit 1
if mkdir "$dir" 2>/dev/null; then
  find_marked "$mark"
  [ -z "$found" ] || { nap 0.2; find_marked "$mark"; }
  if [ -z "$found" ]; then
    printf '' >"$dir/never" && echo gone
    exit
  fi
fi
[ -d "$dir" ] || { echo "there is no folder $dir" >&2; exit 1; }
${stop.how === 'ask' ? askBody(stop.signal) : killBody}`;
}

/**
 * The launcher is left alone: it waits for the program and writes down how it ended. So is what runs in a container of the
 * attempt's command, where it can be seen from here: docker's client, which waits at the end of the line `line` (see
 * src/setup/docker.ts), hands the signal on, and a program may take a second one for impatience.
 */
function askBody(signal: string): string {
  return `
printf '' >"$dir/asked"
find_marked "$mark"
members=
launcher=
if is_alive "$dir"; then
  launcher=$pid
  find_members "$pid"
fi
is_told_inside() {
  [ -p "$dir/line" ] && [ -n "$launcher" ] && [ -e "/proc/$1/ns/mnt" ] && ! [ "/proc/$1/ns/mnt" -ef "/proc/$launcher/ns/mnt" ]
}
count=0
for one in $(printf '%s\\n' $found $members | sort -u); do
  [ "$one" != "$launcher" ] || continue
  ! is_told_inside "$one" || continue
  count=$((count + 1))
  kill -s ${quote(signal)} "$one" 2>/dev/null
done
if [ $count -eq 0 ] && [ -z "$launcher" ]; then echo gone; else echo "asked $count"; fi
`;
}

/**
 * Again and again until two searches have found none, because a program may be starting new ones meanwhile, and one that is
 * just becoming another program shows no mark.
 */
const killBody = `
printf '' >"$dir/asked"
turns=0
quiet=0
members=
if is_alive "$dir"; then find_members "$pid"; fi
while [ $quiet -lt 2 ]; do
  find_marked "$mark"
  if [ -n "$found$members" ]; then
    quiet=0
    kill -s KILL $found $members 2>/dev/null
    members=
  else
    quiet=$((quiet + 1))
  fi
  turns=$((turns + 1))
  [ $turns -lt ${killTurns} ] || { echo "left$found"; exit; }
  [ $quiet -eq 2 ] || nap 0.1
done
if [ ! -e "$dir/exit" ]; then
  if read_pid "$dir"; then
    read_clock
    printf '%-39s\\n' "137 $now" 1<>"$dir/exit.new" && mv "$dir/exit.new" "$dir/exit"
  else
    printf '' >"$dir/never"
  fi
fi
echo gone
`;
