// Session: a program on a worker for as long as somebody listens, as ssh would run it, and ended when nobody does.
//
// The program takes the place of the shell that read the script, so that its exit code or signal is the session's own.
// Beside it a watcher reads commands from the session's input: `data <n>` followed by n bytes for the program, `end` for the
// end of its input, and `stop`. If that input ends while the program is alive, nobody is listening any more, and the watcher
// ends the program. A program that has ended by itself and left something running in the background is not touched.

import { textOf } from '../app/errors.ts';
import type { Program, Session, SessionEnd } from '../app/by-hand.ts';
import { quote, shellFunctions } from './run-folder.ts';

/** Ends what a login shell's start-up files may say on standard error before the program does. */
const errorMark = 'jobman begins here\n';

/** The most bytes that may stand behind one `data`. */
export const dataMost = 1 << 20;

/** How long a session that was told to stop may take before its line is closed. */
export const stopMost = 6_000;

export const word = {
  data: (length: number): string => `data ${length}\n`,
  end: 'end\n',
  stop: 'stop\n',
} as const;

/**
 * The script of a session, for `asProgram` of transport.ts. It reads nothing in /proc before the program begins, because a
 * shell's `read` asks the kernel for each single byte. Groups are named to `kill` in the one form that dash, bash
 * and busybox all take without a complaint: a signal with its hyphen, and no `--`.
 */
export function sessionScript(program: Program, receives: boolean): string {
  return `printf '${errorMark.replace('\n', '\\n')}' >&2
${shellFunctions}
main=$$
# The program leads a process group of its own, so that all of it can be ended. A session of sshd is one already.
lead=setsid
! kill -0 "-$main" 2>/dev/null || lead=
${receives ? openInput : ''}
(
  trap '' HUP INT TERM
${receives ? '  exec >"$input"' : ''}
  said=
  while read -r said count <&3; do
    case $said in
      data)
        # Once the program reads no more, its input cannot be told from our words: only the end of all is waited for.
        head -c "$count" <&3 || { exec >/dev/null; cat <&3; }
        ;;
      end) exec >/dev/null ;;
      stop) break ;;
    esac
  done
  # We are its child, and the kernel gives us another parent when it ends: no number that is somebody else's by now can
  # be taken for it (proc_pid_stat(5): number, name, state, parent).
  read -r self name state parent rest </proc/self/stat
  [ "$said" = stop ] || [ "$parent" = "$main" ] || exit 0
  # The program's input is still open here: a line that was cut must not look to it like the end of what it was to read.
  kill -TERM "-$main"
  # The group may be ours too, so it is never empty.
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
${receives ? 'exec <"$input"\nrm -rf "${input%/*}"\n' : ''}${becoming(program)}
`;
}

/**
 * A pipe with a name, because the program is no child of the watcher that writes into it. In memory where the disk takes no
 * folder more: a full disk is one of the things that people come to look at.
 */
const openInput = `input=$(mktemp -d 2>/dev/null || mktemp -d -p /dev/shm)/input || exit 255
mkfifo -m 600 "$input" || exit 255`;

function becoming(program: Program): string {
  if (program.kind === 'argv') return `exec $lead ${program.argv.map(quote).join(' ')}`;
  const { line } = program;
  const byShell = `exec $lead "\${SHELL:-/bin/sh}" -c ${quote(line)}`;
  const first = plainProgram(line);
  if (first === undefined) return byShell;
  // The shell would do no more than begin it, and takes as long as a short program itself. One that is not there is left to
  // the shell, whose words about it people know; so is everything where the shell reads a file of the user's first.
  return `case \${SHELL##*/}\${BASH_ENV+ and a file} in
  bash | dash | sh) ! command -v ${first} >/dev/null 2>&1 || exec $lead ${line} ;;
esac
${byShell}`;
}

/** Words of bash and dash, and `which`, which some systems make a function of bash. They may be programs as well. */
const shellWords = new Set(
  `alias bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc declare dirs disown do done
  echo elif else enable esac eval exec exit export false fc fg fi for function getopts hash help history if in jobs kill
  let local logout mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source suspend test
  then time times trap true type typeset ulimit umask unalias unset until wait which while`.split(/\s+/u),
);

function plainProgram(line: string): string | undefined {
  const [, first] = /^([a-z][\w.-]*)(?: [\w@%+:,./-]+)*$/u.exec(line) ?? [];
  return first === undefined || shellWords.has(first) ? undefined : first;
}

/**
 * The login shell is asked to become this inside the container of a job's command: a shell there, which reads the same
 * script. The container is found by the label that the docker module gives it; the variables are the command's own,
 * without the secrets, which are in no file.
 * `mark` is `<installation>/<job id>`. Exits with 125, as docker does, when there is no such container.
 */
export function containerEntry(mark: string): string {
  const text = `container=$(docker ps --quiet --filter ${quote(`label=jobman-run=${mark}`)} | head -n 1)
if [ -z "$container" ]; then
  if docker info >/dev/null 2>&1; then
    echo 'No container of this job runs on this worker now. --in-container works while the command runs; without it the command runs on the worker itself.' >&2
  else
    echo 'No Docker daemon answers on this host, or this user may not use it.' >&2
  fi
  exit 125
fi
exec docker exec --interactive "$container" sh -c '. /jobman/variables && exec /bin/sh -s'`;
  // A login that began before its user joined the group docker gets the group this way, as for the command itself.
  const asMember = `text=$1
if ! docker info >/dev/null 2>&1 && sg docker -c true 2>/dev/null; then
  export text
  exec sg docker -c 'exec sh -c "$text"'
fi
exec sh -c "$text"`;
  return `exec sh -c ${quote(asMember)} sh ${quote(text)}`;
}

/** A session whose way is still looked for; what is said meanwhile is passed on in order. */
export function sessionLater(coming: Promise<Session>): Session {
  let isStopped = false;
  // All by one `then`, so that none overtakes another.
  const later = (call: (session: Session) => void | Promise<void>): Promise<void> => coming.then(call, () => undefined);
  const problem = (error: unknown): SessionEnd => ({ kind: 'no_answer', reason: textOf(error), sent: false });
  return {
    write: (bytes) => later((session) => session.write(bytes)),
    end: () => void later((session) => session.end()),
    stop() {
      if (isStopped) return;
      isStopped = true;
      void later((session) => session.stop());
    },
    ended: coming.then((session) => session.ended, problem),
  };
}
