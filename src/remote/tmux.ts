// The lab's windows, in tmux. Every word is passed to tmux as a separate argument, never through a shell; sessions are named
// exactly, because tmux otherwise accepts a prefix (`b` for `bird`); and a window is made together
// with the program that it shows, so that nothing is ever typed into anybody's terminal.

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { exitCode, JobmanError } from '../app/errors.ts';
import { second } from '../core/time.ts';
import type { WindowHost, WindowRef } from '../lab/lab.ts';
import { runProcess, type ProcessResult } from './process.ts';

export interface TmuxOptions {
  /** The environment that tmux is found and run in. TMUX_TMPDIR in it says where its socket is. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A server of its own, by the name of its socket (`-L`); absent: the login's usual one. For tests. */
  readonly socket?: string;
}

/** The option of a window that says whose it is: `000012/1`, a job and its attempt. */
const markOption = '@jobman';

const patience = 10 * second;

/** The windows of this login's tmux; without tmux nothing is shown, and nobody is told that as an error. */
export async function createTmux(options: TmuxOptions): Promise<WindowHost> {
  const path = programOnPath('tmux', options.env['PATH'] ?? '');
  const version = path === null ? undefined : await versionOf(path, options.env);
  if (path === null || version === undefined) return noTmux;
  const server = options.socket === undefined ? [] : ['-L', options.socket];
  const env = ownEnvironment(options.env);
  const tmux = (...commands: readonly (readonly string[])[]): Promise<ProcessResult> =>
    runProcess({
      argv: [
        path,
        '-u',
        ...server,
        ...commands.flatMap((words, at) => [...(at > 0 ? [';'] : []), ...words.map(asWord)]),
      ],
      env,
      timeoutMs: patience,
      outputMost: 1_000_000,
    });

  async function windowsOf(session: string): Promise<readonly { index: number; id: string; mark: string }[] | null> {
    if (!canBeSession(session)) return null;
    const format = `#{window_index} #{window_id} #{${markOption}}`;
    const result = await tmux(['list-windows', '-t', `=${session}:`, '-F', format]);
    if (result.exitCode !== 0) {
      if (isNotThere(result)) return null;
      throw trouble('list the windows of a session', result);
    }
    return textOf(result.stdout)
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const [, index = '', id = '', mark = ''] = /^(\d+) (@\d+) ?(.*)$/u.exec(line) ?? [];
        return { index: Number(index), id, mark };
      });
  }

  /** The session's first window is a shell, as people know it, and stands at 0 whatever their tmux begins to count with. */
  async function makeSession(session: string): Promise<void> {
    const made = await tmux([
      'new-session',
      '-d',
      '-s',
      asFormat(session),
      '-x',
      '200',
      '-y',
      '50',
      '-P',
      '-F',
      '#{window_index}',
    ]);
    // Somebody else has made it in this moment.
    if (made.exitCode !== 0 && wordsOf(made).includes('duplicate session')) return;
    if (made.exitCode !== 0) throw trouble(`make the session ${session}`, made);
    const index = textOf(made.stdout).trim();
    if (index !== '0') await tmux(['move-window', '-s', `=${session}:${index}`, '-t', `=${session}:0`]);
  }

  return {
    tmux: { path, version },
    shower: showerArgv,

    async open({ session, window }, { title, mark, argv }) {
      if (!canBeSession(session)) return null;
      const target = `=${session}:${window}`;
      // One word alone would be read by a shell.
      const program = argv.length === 1 ? ['env', ...argv] : argv;
      const format = '#{pane_id} #{socket_path},#{pid},#{session_id}';
      const make = (): Promise<ProcessResult> =>
        tmux(
          // A window keeps its number: people speak of the attempt by it.
          ['set-option', '-t', `=${session}:`, 'renumber-windows', 'off'],
          ['new-window', '-d', '-t', target, '-n', asTitle(title), '-P', '-F', format, ...program],
          ['set-option', '-w', '-t', target, markOption, mark],
        );
      let made = await make();
      if (made.exitCode !== 0 && isNotThere(made)) {
        await makeSession(session);
        made = await make();
      }
      const [, pane, socket, id] = /^(%\d+) (.*),\$(\d+)$/mu.exec(textOf(made.stdout)) ?? [];
      if (pane !== undefined && socket !== undefined) return { pane, tmux: `${socket},${id}` };
      if (/index \d+ in use|in use: \d+/u.test(wordsOf(made))) return null;
      throw trouble(`open window ${window} of the session ${session}`, made);
    },

    async list(session) {
      const windows = await windowsOf(session);
      return windows?.filter(({ mark }) => mark !== '').map(({ index }) => index) ?? null;
    },

    async close({ session, window }: WindowRef) {
      const found = (await windowsOf(session))?.find(({ index, mark }) => index === window && mark !== '');
      if (found === undefined) return false;
      // By its id, which tmux gives to no other window: the number may be somebody else's by now.
      const result = await tmux(['kill-window', '-t', found.id]);
      if (result.exitCode === 0) return true;
      if (isNotThere(result)) return false;
      throw trouble(`close window ${window} of the session ${session}`, result);
    },
  };
}

const noTmux: WindowHost = {
  tmux: null,
  shower: showerArgv,
  open: () => Promise.resolve(null),
  list: () => Promise.resolve(null),
  close: () => Promise.resolve(false),
};

export function programOnPath(name: string, path: string): string | null {
  for (const folder of path.split(delimiter)) {
    if (folder === '') continue;
    const file = join(folder, name);
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // The next one.
    }
  }
  return null;
}

async function versionOf(path: string, env: TmuxOptions['env']): Promise<string | undefined> {
  const result = await runProcess({ argv: [path, '-V'], env, timeoutMs: patience, outputMost: 1_000 });
  return result.exitCode === 0
    ? textOf(result.stdout)
        .trim()
        .replace(/^tmux /u, '')
    : undefined;
}

/**
 * A server that is started from within an attempt lives on after it: with the attempt's mark in its environment it would be
 * ended with it. And one that is asked from within another tmux would be asked in the place of the usual one.
 */
function ownEnvironment(env: TmuxOptions['env']): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => name !== 'TMUX' && name !== 'TMUX_PANE' && !name.startsWith('JOBMAN_')),
  );
}

/** tmux gives sessions other names than these, or means something else by them. */
function canBeSession(session: string): boolean {
  return session !== '' && !/[:.\p{Cc}]|^[$@%=+-]/u.test(session);
}

/** A word that ends with a semicolon would end the command: cmd_parse_from_arguments in tmux's cmd-parse.y. */
function asWord(word: string): string {
  return word.endsWith(';') ? `${word.slice(0, -1)}\\;` : word;
}

/** In names tmux fills in `#{...}`, and runs what stands in `#(...)`. */
function asFormat(word: string): string {
  return word.replaceAll('#', '##');
}

function asTitle(title: string): string {
  const shown = title.replaceAll(/[\p{Cc}#]/gu, ' ').trim();
  return shown === '' ? 'job' : shown;
}

function isNotThere(result: ProcessResult): boolean {
  return /can't find (session|window)|no server running|error connecting to|no current|no such (session|window)|server exited/u.test(
    wordsOf(result),
  );
}

function trouble(what: string, result: ProcessResult): JobmanError {
  const why = result.timedOut ? `it did not answer within ${patience / second} s` : (result.error ?? wordsOf(result));
  return new JobmanError(`tmux could not ${what}: ${why}`, exitCode.unreachable);
}

function wordsOf(result: ProcessResult): string {
  return textOf(result.stderr).trim();
}

function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/**
 * The words that show the output of an attempt. `folder` is its run folder on this machine. `about` begins the last line
 * (`000012, attempt 1`), and `next` is what may be typed then. When somebody closes the window before its time, `closed` is
 * run, apart from the window and by nobody waited for.
 */
export function showerArgv(of: {
  readonly folder: string;
  readonly about: string;
  readonly next: string;
  readonly closed: readonly string[];
}): readonly string[] {
  return ['/bin/sh', '-c', shower, 'jobman', of.folder, of.about, of.next, ...of.closed];
}

const shower = `
folder=$1 about=$2 next=$3
shift 3
following=
closed() {
  trap '' HUP
  [ -z "$following" ] || kill "$following" 2>/dev/null
  setsid "$@" </dev/null >/dev/null 2>&1 &
  exit 0
}
trap 'closed "$@"' HUP
trap 'printf "\\n-- The job goes on without this window. To look what comes next, or to end it: %s\\n" "$next"' INT

launcher=
{ read -r launcher rest <"$folder/pid"; } 2>/dev/null
# Until the launcher has ended, which it does after everything is written.
if tail --version 2>/dev/null | grep -q GNU; then
  tail -n +1 -f --pid="$launcher" "$folder/log" 2>/dev/null &
  following=$!
else
  tail -n +1 -f "$folder/log" 2>/dev/null &
  following=$!
  (
    while [ -d "/proc/$launcher" ]; do sleep 1; done
    sleep 2
    kill "$following"
  ) 2>/dev/null &
fi
# A trap ends the wait, and not what is waited for.
while kill -0 "$following" 2>/dev/null; do wait "$following"; done
following=

code=
{ read -r code rest <"$folder/exit"; } 2>/dev/null
if [ -n "$code" ]; then how="has ended with exit code $code"; else how='is gone, and nobody wrote down how it ended'; fi
printf '\\n-- %s: its script %s. What comes next: %s\\n' "$about" "$how" "$next"
# Nothing that is typed here does anything. Where there is no terminal any more there is nothing to stay for.
failed=0
while [ $failed -lt 20 ]; do
  if read -r typed; then failed=0; else failed=$((failed + 1)); sleep 1; fi
done
`;
