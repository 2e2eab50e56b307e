// Scripts for shared workers: list the processes that hold the TPU, and end a run. Fields are separated by tabs, which
// are removed from command lines. Scripts and secrets go through the shell's standard input: they appear in no process
// list and no file, and a script ends when the caller stops waiting.

import { messageOf } from '../../../app/errors.ts';
import { second, type Duration } from '../../../core/model/time.ts';
import { holderFunctions } from '../../../catalogue/devices.ts';
import { parseHolder } from '../../../lab/worker-facts.ts';
import type { DeviceHolder } from '../../../app/lab-job.ts';
import type { EndRequest, WorkerAnswer } from '../../../lab/tpu-operations.ts';
import { createOutputBuffer } from '../../../remote/process.ts';
import { quote } from '../../../catalogue/shell.ts';
import type { SshTransport } from '../../../remote/ssh.ts';

export const holdersScript = `${holderFunctions}
for holder in $(find_holders); do print_process "$holder"; done
exit 0
`;

export function parseHolders(worker: number, output: string): readonly DeviceHolder[] {
  return output.split('\n').flatMap((line) => parseHolder(worker, line));
}

/**
 * Ends `pids`, processes with a folder in their command line, their children and process groups; never its ancestors.
 * Compares start times, because process ids are reused.
 */
export function endProgramsScript({ folders, graceMs }: EndRequest, pids: readonly number[]): string {
  const patterns = folders.map((folder) => folder.replace(/\/+$/, '')).filter((folder) => folder !== '');
  const rounds = Math.ceil(graceMs / (second / 5));
  return `${holderFunctions}
whole=${quote(patterns.map((one) => `^\\(.*=\\)\\{0,1\\}${escapePattern(one)}/*$`).join('\n'))}
part=${quote(patterns.map(escapePattern).join('\n'))}
asked=${quote(pids.join(' '))}
nap() { sleep 0.2 2>/dev/null || sleep 1; }
matching() {
  [ -n "$part" ] || return 0
  for file in $(printf '%s\\n' "$part" | LC_ALL=C grep -ls -f - /proc/[0-9]*/cmdline 2>/dev/null); do
    one=\${file#/proc/}
    # Whole arguments, and the parts of arguments that are shell scripts. A run that only loads from the folder
    # (--config.load_from=) does not write there.
    { tr '\\0' '\\n' <"$file"; tr '\\0 \\t;"'"'"'' '\\n\\n\\n\\n\\n\\n' <"$file"; } 2>/dev/null |
      LC_ALL=C grep -v 'load_from=' >"$args" || continue
    ! printf '%s\\n' "$whole" | LC_ALL=C grep -qs -f - "$args" || echo "\${one%/cmdline}"
  done
}
# Prints pid and start time (proc_pid_stat(5), field 22) of these processes that are alive, and of their descendants.
family() {
  cat /proc/[0-9]*/stat 2>/dev/null | awk -v seeds="$*" -v self=$$ '
    { pid = $1; sub(/^.*\\) /, ""); if ($1 == "Z" || $1 == "X") next; parent[pid] = $2; group[pid] = $3; began[pid] = $20 }
    END {
      for (one = self; one in parent; one = parent[one]) ours[one] = 1
      n = split(seeds, list, " ")
      for (i = 1; i <= n; i++) if (list[i] in parent && !(list[i] in ours)) taken[list[i]] = 1
      do {
        more = 0
        for (pid in parent) if (!(pid in taken) && !(pid in ours) && ((parent[pid] in taken) || (group[pid] in taken))) {
          taken[pid] = 1
          more = 1
        }
      } while (more)
      for (pid in taken) print pid, began[pid]
    }'
}
# Prints the processes of "$known" that are still alive, with the same start time.
living() {
  cat /proc/[0-9]*/stat 2>/dev/null | awk -v known="$known" '
    BEGIN { n = split(known, list, " "); for (i = 1; i < n; i += 2) want[list[i]] = list[i + 1] }
    { pid = $1; sub(/^.*\\) /, ""); if ($1 != "Z" && $1 != "X" && (pid in want) && want[pid] == $20) print pid }'
}
meet() {
  for number in $1; do
    case " $met " in *" $number "*) continue ;; esac
    met="$met $number"
    print_process "$number" >>"$described"
  done
}
send_signal() {
  for number in $2; do as_administrator kill -s "$1" "$number" 2>/dev/null; done
}
scratch() { mktemp 2>/dev/null || mktemp -p /dev/shm; }
args=$(scratch) && described=$(scratch) || exit 1
trap 'rm -f "$args" "$described"' EXIT
known=$(family $(matching) $asked | tr '\\n' ' ')
met=
alive=$(living)
meet "$alive"
send_signal TERM "$alive"
turn=0
while [ -n "$alive" ] && [ $turn -lt ${rounds} ]; do
  turn=$((turn + 1))
  nap
  alive=$(living)
done
# Kills processes that were started in the meantime too. Reports those that survive a kill for five seconds.
turn=0
while [ $turn -lt 25 ]; do
  known="$known $(family $(matching) $(living) | tr '\\n' ' ')"
  alive=$(living)
  [ -n "$alive" ] || break
  meet "$alive"
  send_signal KILL "$alive"
  turn=$((turn + 1))
  nap
done
while read -r line; do
  number=\${line%%"	"*}
  how=ended
  for one in $alive; do [ "$one" != "$number" ] || how=left; done
  printf '%s\\t%s\\n' "$how" "$line"
done <"$described"
exit 0
`;
}

export function parseEndResult(
  worker: number,
  output: string,
): { readonly ended: readonly DeviceHolder[]; readonly left: readonly DeviceHolder[] } {
  const holdersAfter = (key: string): readonly DeviceHolder[] =>
    output
      .split('\n')
      .flatMap((line) => (line.startsWith(`${key}\t`) ? parseHolder(worker, line.slice(key.length + 1)) : []));
  return { ended: holdersAfter('ended'), left: holdersAfter('left') };
}

function escapePattern(text: string): string {
  return text.replaceAll(/[\\.*[\]^$]/g, '\\$&');
}

const maxOutputBytes = 1_000_000;

export interface ScriptRequest {
  readonly script: string;
  readonly secrets?: Readonly<Record<string, string>>;
  readonly timeoutMs: Duration;
  readonly signal: AbortSignal;
}

/** Never rejects for failures of the worker, the connection, or `transport`. */
export async function runScript(
  worker: number,
  transport: () => Promise<SshTransport>,
  { script, secrets = {}, timeoutMs, signal }: ScriptRequest,
): Promise<WorkerAnswer> {
  const noAnswer = (message: string): WorkerAnswer => ({ kind: 'no_answer', worker, message });
  let ssh: SshTransport;
  try {
    ssh = await transport();
  } catch (error) {
    return noAnswer(messageOf(error));
  }
  if (signal.aborted) return noAnswer('interrupted');
  const captured = createOutputBuffer(maxOutputBytes);
  const session = ssh.session(
    {
      program: { kind: 'argv', argv: ['/bin/sh', '-s'] },
      hasInput: true,
      onBytes: (chunk) => captured.add(chunk),
    },
    null,
  );
  let stopReason: string | undefined;
  const stopWith = (message: string) => (): void => {
    stopReason ??= message;
    session.stop();
  };
  const timer = setTimeout(stopWith(`it did not end within ${Math.round(timeoutMs / second)} s`), timeoutMs);
  const interrupt = stopWith('interrupted');
  signal.addEventListener('abort', interrupt);
  try {
    await session.write(new TextEncoder().encode(scriptWithSecrets(script, secrets)));
    session.end();
    const end = await session.ended;
    if (stopReason !== undefined) return noAnswer(stopReason);
    if (end.kind === 'unreachable') return noAnswer(end.reason);
    const output = new TextDecoder().decode(captured.bytes());
    return { kind: 'ended', worker, code: end.exitCode ?? 128, output };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', interrupt);
  }
}

/** The shell reads the whole group first: a truncated script runs nothing, and no command reads the rest as input. */
function scriptWithSecrets(script: string, secrets: Readonly<Record<string, string>>): string {
  const exports = Object.entries(secrets).map(([name, value]) => `export ${name}=${quote(value)}\n`);
  return `{\n${exports.join('')}${script}\n} </dev/null\nexit\n`;
}
