// Step: one setup step on one worker. It runs detached like a command, so that a dropped connection or a dead
// controller does not leave half an installation: the next caller finds it running and waits for it.

import type { SetupStep } from '../core/model/spec.ts';
import { launcherScript } from './launch.ts';
import { quote } from '../catalogue/shell.ts';
import { prelude, readBootCommand, tryFunctions, writeFileCommand } from './run-folder.ts';

/** A file that a step needs on the worker. `to` may begin with `~/`; a relative path is below the home folder. */
export interface StepFileBytes {
  readonly to: string;
  readonly mode: number;
  readonly bytes: Uint8Array;
}

export type RunnableStep = Pick<SetupStep, 'key' | 'check' | 'apply'>;

/** True for a key that can be a file name and a field of an observation's answer. */
export function isStepKey(key: string): boolean {
  return /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}$/u.test(key);
}

function triesFolder(root: string, allocation: number, step: RunnableStep): string {
  return `${root}/steps/${allocation}/${step.key}`;
}

/** A manual command removes the proof, then applies the step if its check fails (`check`) or always (`apply`). */
export type StepMode = 'unless-proven' | 'check' | 'apply';

/**
 * Ensures that a try is under way, and prints its output. The last line of standard error is `step <exit code>`,
 * `step vanished` or `step cannot <why>`; after a failure `command <line>` may follow, the last command that began.
 */
export function stepScript(
  root: string,
  allocation: number,
  step: RunnableStep,
  files: readonly StepFileBytes[],
  mode: StepMode = 'unless-proven',
): string {
  const isManual = mode !== 'unless-proven';
  const exitIfProven = `! is_proven "$proofs/${step.key}" || { echo 'step 0' >&2; exit 0; }\n`;
  const launcher = launcherScript({
    marker: null,
    workdir: null,
    checkpointDir: null,
    resume: false,
    checkpointRecord: null,
    resumeFrom: null,
    bootId: null,
  });
  return `
mask=$(umask)
umask 077
top=${root}
root=${triesFolder(root, allocation, step)}
proofs=$top/proofs/${allocation}
${prelude}${tryFunctions}fail() { printf 'step cannot %s\\n' "\${1#cannot }" >&2; exit 0; }
${isManual ? '' : exitIfProven}command -v setsid >/dev/null || fail 'run: the host has no setsid'
command -v base64 >/dev/null || fail 'run: the host has no base64'
try mkdir -p "$root" "$proofs" || fail "create the folder $root$error"

newest=0
for dir in "$root"/try_*; do
  [ -d "$dir" ] && [ "\${dir##*_}" -gt $newest ] && newest=\${dir##*_}
done

# Continue with a running try, or start one.
if [ $newest -eq 0 ] || [ -e "$root/try_$newest/exit" ] || ! is_alive "$root/try_$newest"; then
  newest=$((newest + 1))
${isManual ? `  rm -f "$proofs/${step.key}"` : ''}
${files.map(replaceFileCommand).join('')}
  prepared=$(mktemp -d "$root/start_$newest.XXXXXX" 2>/dev/null) ||
    try mktemp -d "$root/start_$newest.XXXXXX" || fail "write to $root$error"
${writeFilesCommand({ script: tryScript, apply: step.apply, launch: launcher, ...(step.check === null || mode === 'apply' ? {} : { check: step.check }) })}
  printf '' >"$prepared/env"
  result=$(umask "$mask"; setsid sh "$prepared/launch" try_$newest </dev/null 2>/dev/null 3<&- &)
  case $result in
    started | already) ;;
    *) fail "start: \${result#failed }" ;;
  esac
fi

# Prints the log as it grows. The first rounds are short, because most steps hold already; later rounds are longer, because
# each round starts two programs on every worker.
dir=$root/try_$newest
from=0
turns=0
over=
while :; do
  if [ -e "$dir/exit" ]; then over=yes
  elif ! is_alive "$dir" && [ ! -e "$dir/exit" ]; then over=vanished
  fi
  length=$(wc -c <"$dir/log")
  if [ "$length" -gt $from ]; then
    tail -c +$((from + 1)) "$dir/log" | head -c $((length - from)) || exit 0
    from=$((length))
  fi
  [ -z "$over" ] || break
  turns=$((turns + 1))
  if [ $turns -lt 8 ]; then nap 0.05; elif [ $turns -lt 24 ]; then nap 0.3; else nap 1; fi
done
code= ended=
{ read -r code ended <"$dir/exit"; } 2>/dev/null
printf 'step %s\\n' "\${code:-vanished}" >&2
[ "$code" = 0 ] || [ ! -s "$dir/command" ] || { printf 'command '; head -n 1 "$dir/command"; } >&2
`;
}

/** Kills only the session of the newest try: a process that a step leaves on purpose (a mount) has its own session. */
export function killStepScript(root: string, allocation: number, step: RunnableStep): string {
  return `
root=${triesFolder(root, allocation, step)}
${prelude}
for dir in "$root"/try_*; do
  if is_alive "$dir"; then
    find_members "$pid"
    kill -s KILL $members 2>/dev/null
  fi
done
echo gone
`;
}

/** It is in <top>/steps/<allocation>/<step key>/try_<n>/ and finds all other files from there. */
const tryScript = `here=\${0%/*}
tries=\${here%/*}
allocation=\${tries%/*}
top=\${allocation%/steps/*}
run() {
  read -r first <"$1"
  case $first in
    '#!'*) chmod 700 "$1" && "$1" ;;
    *) if command -v bash >/dev/null; then bash "$1"; else sh "$1"; fi ;;
  esac
}
# Like run, but writes the last command to a file: in a failing script this is usually the command that failed.
run_traced() {
  read -r first <"$1"
  case $first in '#!'*) run "$1"; return ;; esac
  if ! command -v bash >/dev/null; then
    run "$1"
    return
  fi
  BASH_XTRACEFD=7 bash -x "$1" 7>"$here/trace"
  code=$?
  # Skip error messages and tests, which are not the command that failed.
  [ "$code" -eq 0 ] ||
    grep '^+' "$here/trace" | grep -Ev '^[+]+ (echo|printf|exit|return|rm -rf|.?[[]+.?|true|false|sleep|tries=|code=|local) ?' |
    tail -n 1 | sed 's/^[+]* //' | cut -c 1-300 >"$here/command"
  rm -f "$here/trace"
  return "$code"
}
export JOBMAN_NEEDS="$here/needs"
if [ ! -f "$here/check" ] || ! run "$here/check"; then
  rm -f "$here/needs"
  run_traced "$here/apply" || exit
fi
${readBootCommand}
proofs=$top/proofs/\${allocation##*/}
proof=\${tries##*/}
{ printf '%s\\n' "$boot" && cat "$here/needs" 2>/dev/null; } >"$proofs/.$proof"
mv "$proofs/.$proof" "$proofs/$proof"
`;

function writeFilesCommand(texts: Readonly<Record<string, string>>): string {
  const encoder = new TextEncoder();
  return Object.entries(texts)
    .map(([name, text]) => writeFileCommand(`"$prepared/${name}"`, encoder.encode(text)))
    .join('');
}

/** Written under a temporary name and renamed, so that no process ever reads half a key. */
function replaceFileCommand(file: StepFileBytes): string {
  const path = file.to.startsWith('/') ? quote(file.to) : `"$HOME"/${quote(file.to.replace(/^~\//u, ''))}`;
  return `target=${path}
try mkdir -p "\${target%/*}" || fail "create the folder \${target%/*}$error"
${writeFileCommand('"$target.jobman-new"', file.bytes)}chmod ${file.mode.toString(8)} "$target.jobman-new" && mv "$target.jobman-new" "$target" || fail "write $target"
`;
}
