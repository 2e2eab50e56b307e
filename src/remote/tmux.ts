// The lab's windows in tmux. Every argument is passed to tmux separately, never through a shell. Sessions are named
// exactly, because tmux otherwise accepts a prefix (`b` for `bird`). A window is created together with the program that
// it shows, so that nothing is ever typed into a user's terminal.

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { exitCode, JobmanError } from '../app/errors.ts';
import { second } from '../core/model/time.ts';
import type { TmuxWindows, WindowRef } from '../lab/lab.ts';
import { runProcess, type ProcessResult } from './process.ts';

export interface TmuxOptions {
  /** TMUX_TMPDIR in it sets the folder of the socket. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The name of the socket (`-L`) of a separate server, for tests; absent: the login's usual server. */
  readonly socket?: string;
}

/** The window option that identifies the job and attempt: `000012/1`. */
const labelOption = '@jobman';

const commandTimeout = 10 * second;

/** Without tmux nothing is shown, and that is not an error. */
export async function createTmux(options: TmuxOptions): Promise<TmuxWindows> {
  const path = programOnPath('tmux', options.env['PATH'] ?? '');
  const version = path === null ? undefined : await versionOf(path, options.env);
  if (path === null || version === undefined) return noTmux;
  const server = options.socket === undefined ? [] : ['-L', options.socket];
  const env = tmuxEnvironment(options.env);
  const tmux = (...commands: readonly (readonly string[])[]): Promise<ProcessResult> =>
    runProcess({
      argv: [
        path,
        '-u',
        ...server,
        ...commands.flatMap((args, at) => [...(at > 0 ? [';'] : []), ...args.map(escapeArgument)]),
      ],
      env,
      timeoutMs: commandTimeout,
      maxOutputBytes: 1_000_000,
    });

  async function windowsOf(session: string): Promise<readonly { index: number; id: string; label: string }[] | null> {
    if (!isSessionName(session)) return null;
    const format = `#{window_index} #{window_id} #{${labelOption}}`;
    const result = await tmux(['list-windows', '-t', `=${session}:`, '-F', format]);
    if (result.exitCode !== 0) {
      if (isNotFound(result)) return null;
      throw tmuxError('list the windows of a session', result);
    }
    return textOf(result.stdout)
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const [, index = '', id = '', label = ''] = /^(\d+) (@\d+) ?(.*)$/u.exec(line) ?? [];
        return { index: Number(index), id, label };
      });
  }

  /**
   * The session's first window is a shell, as users expect, at index 0 whatever their `base-index` is. One sequence of
   * commands, because another program may open the window at the `base-index` in between.
   */
  async function makeSession(session: string): Promise<void> {
    const made = await tmux(
      ['new-session', '-s', escapeFormat(session), '-d', '-x', '200', '-y', '50'],
      ['move-window', '-s', `=${session}:`, '-t', `=${session}:0`],
    );
    if (made.exitCode === 0 || /duplicate session|same index: 0/u.test(errorOutput(made))) return;
    throw tmuxError(`create the session ${session}`, made);
  }

  return {
    tmux: { path, version },
    viewerCommand: viewerArgv,

    async open({ session, window }, { title, label, argv }) {
      if (!isSessionName(session)) return null;
      const target = `=${session}:${window}`;
      // tmux passes a single argument to a shell.
      const program = argv.length === 1 ? ['env', ...argv] : argv;
      const format = '#{pane_id} #{socket_path},#{pid},#{session_id}';
      const make = (): Promise<ProcessResult> =>
        tmux(
          // A window keeps its number, because users name the attempt by it.
          ['set-option', '-t', `=${session}:`, 'renumber-windows', 'off'],
          ['new-window', '-d', '-t', target, '-n', cleanTitle(title), '-P', '-F', format, ...program],
          ['set-option', '-w', '-t', target, labelOption, label],
        );
      let made = await make();
      if (made.exitCode !== 0 && isNotFound(made)) {
        await makeSession(session);
        made = await make();
      }
      const [, pane, socket, id] = /^(%\d+) (.*),\$(\d+)$/mu.exec(textOf(made.stdout)) ?? [];
      if (pane !== undefined && socket !== undefined) return { pane, tmux: `${socket},${id}` };
      if (/index \d+ in use|in use: \d+/u.test(errorOutput(made))) return null;
      throw tmuxError(`open window ${window} of the session ${session}`, made);
    },

    async list(session) {
      const windows = await windowsOf(session);
      return windows?.filter(({ label }) => label !== '').map(({ index }) => index) ?? null;
    },

    async close({ session, window }: WindowRef) {
      const found = (await windowsOf(session))?.find(({ index, label }) => index === window && label !== '');
      if (found === undefined) return false;
      // By its id, which tmux never reuses: the number may belong to another window by now.
      const result = await tmux(['kill-window', '-t', found.id]);
      if (result.exitCode === 0) return true;
      if (isNotFound(result)) return false;
      throw tmuxError(`close window ${window} of the session ${session}`, result);
    },
  };
}

const noTmux: TmuxWindows = {
  tmux: null,
  viewerCommand: viewerArgv,
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
      // Try the next folder.
    }
  }
  return null;
}

async function versionOf(path: string, env: TmuxOptions['env']): Promise<string | undefined> {
  const result = await runProcess({ argv: [path, '-V'], env, timeoutMs: commandTimeout, maxOutputBytes: 1_000 });
  return result.exitCode === 0
    ? textOf(result.stdout)
        .trim()
        .replace(/^tmux /u, '')
    : undefined;
}

/** Without the attempt's marker, so that a new server outlives the attempt; without TMUX, to use the usual server. */
function tmuxEnvironment(env: TmuxOptions['env']): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => name !== 'TMUX' && name !== 'TMUX_PANE' && !name.startsWith('JOBMAN_')),
  );
}

/** tmux changes other names, or gives them another meaning. */
function isSessionName(session: string): boolean {
  return session !== '' && !/[:.\p{Cc}]|^[$@%=+-]/u.test(session);
}

/** An argument that ends with a semicolon would end the command: cmd_parse_from_arguments in tmux's cmd-parse.y. */
function escapeArgument(argument: string): string {
  return argument.endsWith(';') ? `${argument.slice(0, -1)}\\;` : argument;
}

/** In names tmux expands `#{...}` and runs `#(...)`. */
function escapeFormat(text: string): string {
  return text.replaceAll('#', '##');
}

function cleanTitle(title: string): string {
  const shown = title.replaceAll(/[\p{Cc}#]/gu, ' ').trim();
  return shown === '' ? 'job' : shown;
}

function isNotFound(result: ProcessResult): boolean {
  return /can't find (session|window)|no server running|error connecting to|no current|no such (session|window)|server exited/u.test(
    errorOutput(result),
  );
}

function tmuxError(action: string, result: ProcessResult): JobmanError {
  const why = result.timedOut
    ? `it did not answer within ${commandTimeout / second} s`
    : (result.error ?? errorOutput(result));
  return new JobmanError(`tmux could not ${action}: ${why}`, exitCode.unreachable);
}

function errorOutput(result: ProcessResult): string {
  return textOf(result.stderr).trim();
}

function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** `title` begins the last line, which suggests `nextCommand`. If a user closes the window, `onClosed` still runs. */
export function viewerArgv(of: {
  readonly folder: string;
  readonly title: string;
  readonly nextCommand: string;
  readonly onClosed: readonly string[];
}): readonly string[] {
  return ['/bin/sh', '-c', viewerScript, 'jobman', of.folder, of.title, of.nextCommand, ...of.onClosed];
}

const viewerScript = `
folder=$1 title=$2 next_command=$3
shift 3
following=
closed() {
  trap '' HUP
  [ -z "$following" ] || kill "$following" 2>/dev/null
  setsid "$@" </dev/null >/dev/null 2>&1 &
  exit 0
}
trap 'closed "$@"' HUP
trap 'printf "\\n-- The job continues without this window. To see its state or end it: %s\\n" "$next_command"' INT

launcher=
{ read -r launcher rest <"$folder/pid"; } 2>/dev/null
# Follow until the launcher has ended: it ends after the log is complete.
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
# A trap ends the wait, but not the process.
while kill -0 "$following" 2>/dev/null; do wait "$following"; done
following=

code=
{ read -r code rest <"$folder/exit"; } 2>/dev/null
if [ -n "$code" ]; then how="exited with code $code"; else how='ended without an exit code'; fi
printf '\\n-- %s: the script %s. Next: %s\\n' "$title" "$how" "$next_command"
# Ignore typed input. Exit when the terminal is closed.
failed=0
while [ $failed -lt 20 ]; do
  if read -r typed; then failed=0; else failed=$((failed + 1)); sleep 1; fi
done
`;
