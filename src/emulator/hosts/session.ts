/**
 * A command or a shell on a host, run as sshd does it: in a session of its own, by the login shell, from the home folder.
 * When the connection ends only the streams are closed: a detached program keeps running. Bytes pass unchanged, and a slow
 * reader slows the program down instead of filling our memory.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PseudoTtyInfo, ServerChannel, WindowChangeInfo } from 'ssh2';
import type { Machine } from './machine.ts';
import { signal } from './processes.ts';

export interface SessionFacts {
  readonly machine: Machine;
  readonly env: Readonly<Record<string, string>>;
  /** A folder of the host for the names of terminals. */
  readonly folder: string;
  log(line: string): void;
}

export type Wanted = { readonly kind: 'command'; readonly command: string } | { readonly kind: 'shell' };

export interface Terminal {
  readonly columns: number;
  readonly rows: number;
  readonly term: string;
}

export interface RunningSession {
  resize(size: WindowChangeInfo): void;
  signal(name: string): void;
}

export const loginShell = isExecutable('/bin/bash') ? '/bin/bash' : '/bin/sh';

const signals = ['KILL', 'HUP', 'TERM', 'INT', 'QUIT', 'USR1', 'USR2'] as const;

let terminalsMade = 0;

export function terminalOf(info: PseudoTtyInfo): Terminal {
  // ssh2 leaves the name out of its types when it is empty.
  const { term } = info as { term?: string };
  return { columns: info.cols || 80, rows: info.rows || 24, term: term || 'xterm' };
}

/** Starts what is wanted and joins it to the channel, which is closed when all is over. */
export function startSession(
  facts: SessionFacts,
  wanted: Wanted,
  terminal: Terminal | undefined,
  channel: ServerChannel,
): RunningSession {
  terminalsMade += 1;
  const ttyName = join(facts.folder, `tty.${String(terminalsMade)}`);
  const inner = innerCommand(wanted, facts.env['HOME'] ?? '/');
  const argv = terminal === undefined ? inner : onTerminal(inner, terminal, ttyName);
  const [program = '', ...rest] = facts.machine.enter(argv, facts.env['HOME']);
  const child = spawn(program, rest, {
    detached: true,
    cwd: '/',
    env: { ...facts.env, ...(terminal === undefined ? {} : { TERM: terminal.term }) },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  joinStreams(child, channel, terminal !== undefined, facts);
  return {
    resize(size) {
      const tty = readText(ttyName);
      if (tty === '') return;
      const [command = '', ...words] = facts.machine.enter([
        'stty',
        '-F',
        tty,
        'rows',
        String(size.rows),
        'cols',
        String(size.cols),
      ]);
      spawn(command, words, { stdio: 'ignore', cwd: '/' }).on('error', () => undefined);
    },
    signal(name) {
      const known = signals.find((each) => each === name);
      if (known !== undefined && child.pid !== undefined) void signal(known, [-child.pid]);
    },
  };
}

function innerCommand(wanted: Wanted, home: string): readonly string[] {
  switch (wanted.kind) {
    case 'command':
      return replacesTheShell(wanted.command, home)
        ? wanted.command.split(' ').slice(1)
        : [loginShell, '-c', wanted.command];
    case 'shell':
      return [loginShell, '-l'];
  }
}

/**
 * Whether all that the login shell would do is to become that program: it need not begin then, which on many hosts at once is
 * much of what a short command costs. A shell that was begun over SSH reads .bashrc first.
 */
function replacesTheShell(command: string, home: string): boolean {
  return /^exec \/[\w./-]+( [\w./-]+)*$/.test(command) && !existsSync(join(home, '.bashrc'));
}

/**
 * Node has no terminals of its own; util-linux's `script` has. The words travel as arguments of an inner shell, so that
 * nothing is quoted twice; the terminal's name is left in a file for later changes of its size.
 */
function onTerminal(inner: readonly string[], terminal: Terminal, ttyName: string): readonly string[] {
  const words = inner.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
  const setUp = `stty echo rows ${String(terminal.rows)} cols ${String(terminal.columns)} 2>/dev/null; tty >'${ttyName.replaceAll("'", "'\\''")}'`;
  return ['script', '--quiet', '--return', '--flush', '--command', `${setUp}; exec ${words}`, '/dev/null'];
}

function joinStreams(child: ChildProcess, channel: ServerChannel, hasTerminal: boolean, facts: SessionFacts): void {
  const { stdin, stdout, stderr } = child;
  if (stdin === null || stdout === null || stderr === null) return;
  // A reader that went away, or a program that closed its input: each is an ending, not an error.
  for (const stream of [stdin, stdout, stderr, channel, channel.stderr]) stream.on('error', () => undefined);
  channel.pipe(stdin);
  stdout.pipe(channel, { end: false });
  stderr.pipe(channel.stderr, { end: false });
  let isOver = false;
  let left: { code: number | null; name: NodeJS.Signals | null } | undefined;
  const finish = (): void => {
    if (isOver) return;
    isOver = true;
    if (typeof left?.name === 'string') channel.exit(left.name.replace(/^SIG/, ''), false, '');
    else channel.exit(left?.code ?? 255);
    channel.end();
  };
  child.on('error', (error) => {
    facts.log(`a session could not start: ${error.message}`);
    left = { code: 126, name: null };
    finish();
  });
  child.on('exit', (code, name) => {
    left = { code, name };
    // Input that nobody reads any more would hold the streams open.
    channel.unpipe(stdin);
    stdin.destroy();
  });
  // `close` comes when the program and everybody that inherited its output have closed it, which is sshd's rule too.
  child.on('close', () => {
    if (channel.writableLength === 0) finish();
    else channel.write('', () => finish());
  });
  channel.on('close', () => {
    isOver = true;
    // As sshd does: the ends of the pipes go; whoever still writes to them learns of it by SIGPIPE.
    stdin.destroy();
    stdout.destroy();
    stderr.destroy();
    if (hasTerminal && child.exitCode === null && child.pid !== undefined) void signal('HUP', [-child.pid]);
  });
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return '';
  }
}
