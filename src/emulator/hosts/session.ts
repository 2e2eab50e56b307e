/**
 * A command or a shell on a host, run as sshd runs it: in its own session, by the login shell, in the home folder. The
 * end of the connection closes only the streams: a detached program keeps running. Bytes pass unchanged, and a slow
 * reader slows the program down instead of filling our memory.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PseudoTtyInfo, ServerChannel, WindowChangeInfo } from 'ssh2';
import type { Machine } from './machine.ts';
import { signal } from './processes.ts';

export interface SessionOptions {
  readonly machine: Machine;
  readonly env: Readonly<Record<string, string>>;
  readonly folder: string;
  log(line: string): void;
}

export type SessionRequest = { readonly kind: 'command'; readonly command: string } | { readonly kind: 'shell' };

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

let terminalCount = 0;

export function terminalOf(info: PseudoTtyInfo): Terminal {
  // ssh2 omits an empty name, but its types do not say so.
  const { term } = info as { term?: string };
  return { columns: info.cols || 80, rows: info.rows || 24, term: term || 'xterm' };
}

/** Starts the command or shell and connects it to the channel. Closes the channel at its end. */
export function startSession(
  options: SessionOptions,
  request: SessionRequest,
  terminal: Terminal | undefined,
  channel: ServerChannel,
): RunningSession {
  terminalCount += 1;
  const ttyName = join(options.folder, `tty.${String(terminalCount)}`);
  const inner = innerCommand(request, options.env['HOME'] ?? '/');
  const argv = terminal === undefined ? inner : withTerminal(inner, terminal, ttyName);
  const [program = '', ...rest] = options.machine.wrapCommand(argv, options.env['HOME']);
  const child = spawn(program, rest, {
    detached: true,
    cwd: '/',
    env: { ...options.env, ...(terminal === undefined ? {} : { TERM: terminal.term }) },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  joinStreams(child, channel, terminal !== undefined, options);
  return {
    resize(size) {
      const tty = readText(ttyName);
      if (tty === '') return;
      const [command = '', ...args] = options.machine.wrapCommand([
        'stty',
        '-F',
        tty,
        'rows',
        String(size.rows),
        'cols',
        String(size.cols),
      ]);
      spawn(command, args, { stdio: 'ignore', cwd: '/' }).on('error', () => undefined);
    },
    signal(name) {
      const known = signals.find((each) => each === name);
      if (known !== undefined && child.pid !== undefined) void signal(known, [-child.pid]);
    },
  };
}

function innerCommand(request: SessionRequest, home: string): readonly string[] {
  switch (request.kind) {
    case 'command':
      return canSkipShell(request.command, home)
        ? request.command.split(' ').slice(1)
        : [loginShell, '-c', request.command];
    case 'shell':
      return [loginShell, '-l'];
  }
}

/**
 * True when the login shell would only replace itself by the program: a direct start is much faster on many hosts. A
 * shell over SSH reads .bashrc first, so such a file needs the shell.
 */
function canSkipShell(command: string, home: string): boolean {
  return /^exec \/[\w./-]+( [\w./-]+)*$/.test(command) && !existsSync(join(home, '.bashrc'));
}

/** Node has no terminals; `script` of util-linux has. The terminal's name is stored for later changes of its size. */
function withTerminal(inner: readonly string[], terminal: Terminal, ttyName: string): readonly string[] {
  const quotedArgs = inner.map((arg) => `'${arg.replaceAll("'", "'\\''")}'`).join(' ');
  const setUp = `stty echo rows ${String(terminal.rows)} cols ${String(terminal.columns)} 2>/dev/null; tty >'${ttyName.replaceAll("'", "'\\''")}'`;
  return ['script', '--quiet', '--return', '--flush', '--command', `${setUp}; exec ${quotedArgs}`, '/dev/null'];
}

function joinStreams(child: ChildProcess, channel: ServerChannel, hasTerminal: boolean, options: SessionOptions): void {
  const { stdin, stdout, stderr } = child;
  if (stdin === null || stdout === null || stderr === null) return;
  // A reader that disconnects and a program that closes its input are normal ends.
  for (const stream of [stdin, stdout, stderr, channel, channel.stderr]) stream.on('error', () => undefined);
  channel.pipe(stdin);
  stdout.pipe(channel, { end: false });
  stderr.pipe(channel.stderr, { end: false });
  let isOver = false;
  let exit: { code: number | null; name: NodeJS.Signals | null } | undefined;
  const finish = (): void => {
    if (isOver) return;
    isOver = true;
    if (typeof exit?.name === 'string') channel.exit(exit.name.replace(/^SIG/, ''), false, '');
    else channel.exit(exit?.code ?? 255);
    channel.end();
  };
  child.on('error', (error) => {
    options.log(`a session could not start: ${error.message}`);
    exit = { code: 126, name: null };
    finish();
  });
  child.on('exit', (code, name) => {
    exit = { code, name };
    // Input without a reader would keep the streams open.
    channel.unpipe(stdin);
    stdin.destroy();
  });
  // `close` comes after all processes that inherited the output have closed it, which is sshd's rule too.
  child.on('close', () => {
    if (channel.writableLength === 0) finish();
    else channel.write('', () => finish());
  });
  channel.on('close', () => {
    isOver = true;
    // As in sshd: close the pipes, and a process that still writes receives SIGPIPE.
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
