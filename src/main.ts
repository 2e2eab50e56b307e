/**
 * The entry of the `jobman` command, and the only file that touches `process`: everything else is told its arguments,
 * environment and streams, so that a test can call it.
 *
 * It is written to become CommonJS as well (no top-level await), because in an ES module `import "node:http"` and its
 * like load Node's whole fetch stack, which costs more than the rest of a short command.
 */
import { existsSync, fstatSync, statfsSync, statSync, writeSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import type { Interface } from 'node:readline';
import { userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import type { Io, Stream } from './app/services.ts';
import { version } from './version.ts';

// Compiled code is kept in the user's own cache folder. A shared temporary folder would let one user run another's
// code. An environment without a home, or whose home is gone, gets no cache: it is only slower.
const home = process.env['HOME'];
const cacheHome = process.env['XDG_CACHE_HOME'] || (home && existsSync(home) && join(home, '.cache'));
if (cacheHome && hasRoom(cacheHome)) enableCompileCache(join(cacheHome, 'jobman', 'v8'));

// Each is opened when it is first asked for: opening a stream has a cost, and standard input a side effect on pipes.
const streams: { stdout?: Stream; stderr?: Stream } = {};
/** True once a stream of Node's is open, which may still have data when the command is over. */
let hasStream = false;
let login: string | undefined;
let reader: Interface | undefined;
let lines: AsyncIterator<string> | undefined;
/** Nothing comes any more, however often it is asked. */
let isInputOver = false;
const leaving = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const io: Io = {
  get stdout() {
    return (streams.stdout ??= outputOf(1, () => process.stdout));
  },
  get stderr() {
    return (streams.stderr ??= outputOf(2, () => process.stderr));
  },
  stdin: {
    get isTerminal() {
      return process.stdin.isTTY === true;
    },
    line: readLine,
    bytes: readBytes,
    keys: readKeys,
    raw: handOnKeys,
  },
  env: process.env,
  cwd: folderHere(),
  get user() {
    return (login ??= loginName());
  },
  userHome: process.env['HOME'] || userInfo().homedir,
  pid: process.pid,
  // The controller sleeps nearly always; V8's own search for memory to give back would wake it
  // more often than its work does.
  launcher: [process.execPath, '--no-memory-reducer', process.argv[1] ?? ''],
  version,
  onSignal(call) {
    const listeners = leaving.map((name) => [name, () => call(name)] as const);
    for (const [name, listener] of listeners) process.on(name, listener);
    return () => {
      for (const [name, listener] of listeners) process.off(name, listener);
    };
  },
  atExit,
  now: () => Date.now(),
};

// `import()` of one file: each that stands here is another to find and read. Nothing else of ours is imported above, before
// compiled code is kept.
import('./wiring/start.ts')
  .then(({ run, createServices, isShared, sharedUmask }) => {
    const services = createServices(io);
    if (isShared(services.home)) process.umask(sharedUmask);
    return run(process.argv.slice(2), services);
  })
  .then(
    (exitCode) => {
      process.exitCode = exitCode;
      // Everything is written, so nothing is left to wait for; taking all of Node down in order takes some milliseconds.
      if (!hasStream) process.exit();
    },
    (error: unknown) => {
      const text = error instanceof Error ? error.stack : String(error);
      // It may hold text of a manifest or of a cloud.
      const shown = String(text).replace(/[^\P{Cc}\n]|[\u202a-\u202e\u2066-\u2069]/gu, '?');
      process.stderr.write(`jobman ${version} stopped because of a mistake of its own:\n${shown}\n`);
      process.exitCode = 1;
    },
  );

/** False for a disk that is nearly full: Node leaves an empty file for each module that it cannot keep, at every start. */
function hasRoom(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(existsSync(folder) ? folder : dirname(folder));
    return bavail * bsize > 32 * 1024 * 1024;
  } catch {
    return false;
  }
}

/** Standard output or error. Node's own stream is opened only where it is needed: opening it loads a fifth of Node. */
function outputOf(descriptor: number, open: () => NodeJS.WriteStream): Stream {
  return takesAllAtOnce(descriptor) ? plainOutput(descriptor, open) : streamOutput(open());
}

/**
 * True for a file, a pipe and /dev/null: writing there waits until all is taken, which is also what Node's stream does
 * with them on Linux (https://nodejs.org/api/process.html#a-note-on-process-io).
 */
function takesAllAtOnce(descriptor: number): boolean {
  try {
    const facts = fstatSync(descriptor);
    return facts.isFile() || facts.isFIFO() || (facts.isCharacterDevice() && facts.rdev === statSync('/dev/null').rdev);
  } catch {
    return false;
  }
}

function plainOutput(descriptor: number, open: () => NodeJS.WriteStream): Stream {
  let closed = false;
  /** Takes over when somebody has set the pipe to refuse what does not fit at once: Node's stream knows how to wait. */
  let waiting: Stream | undefined;
  return {
    write(text) {
      if (waiting !== undefined) {
        waiting.write(text);
        return;
      }
      let bytes = typeof text === 'string' ? Buffer.from(text) : text;
      while (!closed && bytes.length > 0) {
        try {
          bytes = bytes.subarray(writeSync(descriptor, bytes));
        } catch (error) {
          const { code } = error as NodeJS.ErrnoException;
          if (code === 'EAGAIN') {
            waiting = streamOutput(open());
            waiting.write(bytes);
            return;
          }
          closed = true;
          noteUnwritten(error as NodeJS.ErrnoException);
        }
      }
    },
    flush: () => waiting?.flush() ?? Promise.resolve(),
    isTerminal: false,
    size: () => ({ columns: 80, rows: 24 }),
    onResize: () => () => undefined,
    get closed() {
      return closed || waiting?.closed === true;
    },
    watchReader() {
      let isOver = false;
      let end: (() => void) | undefined;
      void import('./wiring/processes.ts').then(({ watchPipeReader }) => {
        if (!isOver) end = watchPipeReader(process.pid, descriptor, () => (closed = true));
      });
      return () => {
        isOver = true;
        end?.();
      };
    },
  };
}

function streamOutput(stream: NodeJS.WriteStream): Stream {
  let closed = false;
  hasStream = true;
  stream.on('error', (error: NodeJS.ErrnoException) => {
    closed = true;
    noteUnwritten(error);
  });
  return {
    write(text) {
      if (!closed) stream.write(text);
    },
    async flush() {
      // Not 'drain': that is told only after a write which filled the buffer, and a smaller one may have to wait as well.
      // Called back after all that was written before it, and with an error when there will be no more.
      if (!closed && stream.writableLength > 0) {
        await new Promise<void>((resolve) => stream.write('', () => resolve()));
      }
    },
    isTerminal: stream.isTTY === true,
    size: () => ({ columns: stream.columns || 80, rows: stream.rows || 24 }),
    onResize(call) {
      stream.on('resize', call);
      return () => stream.off('resize', call);
    },
    get closed() {
      return closed;
    },
    // A terminal that was shut, or a socket, tells it by itself.
    watchReader: () => () => undefined,
  };
}

/**
 * Called with what ended an output early. `jobman list | head -1` closes it: the reader has what it wanted, so this is an
 * ending and no error, as is a terminal that was shut (EIO). Anything else, a full disk say, leaves a reader with a part
 * that looks like the whole, so the command says so at its end and fails.
 */
function noteUnwritten(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE' || error.code === 'EIO') return;
  // At the very end, because a stream may tell its failure after the command is over.
  process.once('exit', () => {
    const why = error.message.replace(/^E[A-Z]+: |, write$/g, '');
    io.stderr.write(`jobman: What it printed could not be written in full: ${why}.\n`);
    process.exitCode ||= 1;
  });
}

/**
 * The folder that the command was called in. A shell may stand in one that has been removed meanwhile; by the shell's word
 * for it, absolute paths and jobs are found as ever, and a relative path is answered with "there is no such file".
 */
function folderHere(): string {
  try {
    return process.cwd();
  } catch {
    return process.env['PWD'] || '/';
  }
}

/** The login name by the system's own books; the environment's USER may say anything. A number where there is no name. */
function loginName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown');
  }
}

/** See Io. A signal that only we listen to has its usual effect, after the call. */
function atExit(call: () => void): () => void {
  const listeners = leaving.map((name) => [name, () => endBy(name)] as const);
  const endBy = (name: (typeof leaving)[number]) => {
    if (process.listenerCount(name) > 1) return;
    forget();
    call();
    process.kill(process.pid, name);
  };
  const forget = () => {
    process.off('exit', call);
    for (const [name, listener] of listeners) process.off(name, listener);
  };
  process.on('exit', call);
  // Before all others: one of them may stop listening while it is told, and would then not be counted.
  for (const [name, listener] of listeners) process.prependListener(name, listener);
  return forget;
}

/** See Input. Node puts the terminal's own mode back when the process ends, by a signal too. */
function readKeys(call: (typed: string) => void): () => void {
  const { stdin } = process;
  endLines();
  const take = (bytes: Buffer) => {
    const typed = bytes.toString('utf8');
    if (!typed.includes(ctrlZ)) {
      call(typed);
      return;
    }
    stdin.setRawMode(false);
    process.kill(process.pid, 'SIGTSTP');
  };
  // The shell has set its own mode meanwhile.
  const comeBack = () => {
    stdin.setRawMode(true);
    call('');
  };
  stdin.setRawMode(true);
  stdin.on('data', take);
  // A question before has left it paused, and then nobody would hear a key, not even Ctrl-C.
  stdin.resume();
  process.on('SIGCONT', comeBack);
  return () => {
    stdin.off('data', take);
    process.off('SIGCONT', comeBack);
    stdin.pause();
    stdin.setRawMode(false);
  };
}

/**
 * See Input. Node puts the terminal's own mode back when the process ends, by a signal too. Its raw mode still makes two
 * characters of each new line, with which a program that moves about the screen elsewhere would draw it wrongly; a system
 * without stty has that left.
 */
async function handOnKeys(): Promise<() => void> {
  const { stdin } = process;
  stdin.setRawMode(true);
  const { spawn } = await import('node:child_process');
  await new Promise<void>((resolve) => {
    const stty = spawn('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] });
    stty.on('error', () => resolve());
    stty.on('close', () => resolve());
  });
  return () => {
    // Reading may have been ended meanwhile, which closes the stream and gives the terminal its own mode.
    if (!stdin.destroyed) stdin.setRawMode(false);
  };
}

const ctrlZ = '\u001a';

async function* readBytes(signal: AbortSignal): AsyncIterable<Uint8Array> {
  const { stdin } = process;
  // Input that is still waited for would keep the command from ending.
  const leave = (): void => void stdin.destroy();
  signal.addEventListener('abort', leave);
  try {
    if (!signal.aborted) yield* stdin as AsyncIterable<Uint8Array>;
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

/** See Input. */
async function readLine(): Promise<string | null> {
  if (isInputOver) return null;
  if (lines === undefined) {
    const { createInterface } = await import('node:readline');
    reader = createInterface({ input: process.stdin });
    lines = reader[Symbol.asyncIterator]();
  }
  reader?.resume();
  // A signal that the command hears itself does not end the program, and would leave it waiting for the answer.
  const heard = leaving.filter((name) => process.listenerCount(name) > 0);
  const { promise: left, resolve: leave } = Promise.withResolvers<null>();
  const onLeave = (): void => leave(null);
  for (const name of heard) process.once(name, onLeave);
  const next = await Promise.race([lines.next(), left]);
  for (const name of heard) process.off(name, onLeave);
  if (next === null || next.done === true) {
    isInputOver = next !== null;
    endLines();
    return null;
  }
  // A terminal that is still listened to would keep the command from ending after its last question.
  reader?.pause();
  return next.value;
}

/** Keys are read from now on; a later question begins anew. */
function endLines(): void {
  reader?.close();
  reader = undefined;
  lines = undefined;
}
