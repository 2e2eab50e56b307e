// Session: a program on a worker that runs as long as a client listens, as ssh would run it, and ends when the client
// leaves.
//
// The program replaces the shell that read the script, so that its exit code or signal is the session's own. A watcher
// next to it reads commands from the session's input: `data <n>` followed by n bytes for the program, `end` for the end
// of its input, and `stop`. If that input ends while the program is alive, no client is listening any more, and the
// watcher ends the program. If the program has ended by itself, background processes that it left are not touched.

import type { ProgramRequest } from '../api/worker-stream.ts';
import type { Program } from '../app/worker-access.ts';
import { quote } from '../catalogue/shell.ts';
import { shellFunctions } from './run-folder.ts';
import { beginMarker } from './transport.ts';

/** After a stop, the connection is closed when the session has not ended in this time. */
export const stopTimeoutMs = 6_000;

export const sessionCommands = {
  data: (length: number): string => `data ${length}\n`,
  end: 'end\n',
  stop: 'stop\n',
} as const;

/**
 * The script of a session, for `wrapScript` of transport.ts. It reads nothing in /proc before the program begins,
 * because a shell's `read` makes a system call for each byte. `kill` gets groups in the only form that dash, bash and
 * busybox all accept: a signal with its hyphen, and no `--`.
 */
export function sessionScript(program: Program, hasInput: boolean): string {
  return `printf '${beginMarker}\\n' >&2
${shellFunctions}
main=$$
# The program leads its own process group, so that a signal reaches all its processes. A session of sshd already does.
lead=setsid
! kill -0 "-$main" 2>/dev/null || lead=
${hasInput ? openInput : ''}
(
  trap '' HUP INT TERM
${hasInput ? '  exec >"$input"' : ''}
  command=
  while read -r command count <&3; do
    case $command in
      data)
        # After the program closes its input, the rest of the data cannot be separated from commands. Wait for the end.
        head -c "$count" <&3 || { exec >/dev/null; cat <&3; }
        ;;
      end) exec >/dev/null ;;
      stop) break ;;
    esac
  done
  # This watcher is a child of the program and gets another parent when the program ends, so a reused process id is
  # noticed (proc_pid_stat(5): number, name, state, parent).
  read -r self name state parent rest </proc/self/stat
  [ "$command" = stop ] || [ "$parent" = "$main" ] || exit 0
  # The input of the program stays open, so that it does not treat half of its data as complete.
  kill -TERM "-$main"
  # The group may contain this watcher.
  has_others() {
    list_processes " [RSDTtIWPK] [0-9]* $main" stat
    for other in $listed; do [ "$other" = "$self" ] || return 0; done
    return 1
  }
  turns=0
  while [ $turns -lt 15 ] && has_others; do
    turns=$((turns + 1))
    nap 0.2
  done
  kill -KILL "-$main"
) >/dev/null 2>&1 &
exec 3<&-
${hasInput ? 'exec <"$input"\nrm -rf "${input%/*}"\n' : ''}${execCommand(program)}
`;
}

/**
 * Named, because the program is not a child of the watcher. In memory if the disk is full, which users may investigate.
 */
const openInput = `input=$(mktemp -d 2>/dev/null || mktemp -d -p /dev/shm)/input || exit 255
mkfifo -m 600 "$input" || exit 255`;

function execCommand(program: Program): string {
  if (program.kind === 'argv') return `exec $lead ${program.argv.map(quote).join(' ')}`;
  return `exec $lead "\${SHELL:-/bin/sh}" -c ${quote(program.line)}`;
}

/**
 * The command that replaces the login shell: a shell inside the container of a job's command, which reads the same
 * script. The container is found by the label that the docker module sets. The variables are the command's own, without
 * the secrets, which are in no file. `marker` is `<installation>/<job id>`. Exits with 125, as docker does, when there
 * is no such container. With a program for a terminal, it runs that one instead of the shell.
 */
function containerEntry(marker: string, terminalProgram: Program | null): string {
  const text = `container=$(docker ps --quiet --filter ${quote(`label=jobman-run=${marker}`)} | head -n 1)
if [ -z "$container" ]; then
  if docker info >/dev/null 2>&1; then
    echo 'This job has no running container on this worker. Use --in-container while the command of the job runs; without it the command runs on the worker.' >&2
  else
    echo 'The Docker daemon does not answer on this host, or this user has no permission to use it.' >&2
  fi
  exit 125
fi
exec docker exec --interactive ${
    terminalProgram === null ? '' : '--tty '
  }"$container" sh -c ${quote(`. /jobman/variables && ${terminalProgram === null ? 'exec /bin/sh -s' : execCommand(terminalProgram)}`)}`;
  // A login that began before its user joined the group docker gets the group this way, as for the command itself.
  const asMember = `text=$1
if ! docker info >/dev/null 2>&1 && sg docker -c true 2>/dev/null; then
  export text
  exec sg docker -c 'exec sh -c "$text"'
fi
exec sh -c "$text"`;
  return `exec sh -c ${quote(asMember)} sh ${quote(text)}`;
}

/** The command that replaces the login shell for a request; null for a plain sh on the worker itself. */
export function entryOf({ program, terminal, environment }: ProgramRequest, container: string): string | null {
  const terminalProgram = terminal ? program : null;
  if (environment === 'container') return containerEntry(container, terminalProgram);
  return terminalProgram === null ? null : `exec /bin/sh -c ${quote(execCommand(terminalProgram))}`;
}
