/**
 * The entry of the `jobman` command, and the only file that uses `process`: all other code gets arguments, environment
 * and streams as values. It must also compile to CommonJS (no top-level await), because in an ES module `import
 * "node:http"` and similar imports load Node's whole fetch stack, which costs more than the rest of a short command.
 */
import { existsSync, fstatSync, statfsSync, statSync, writeSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import type { Interface } from 'node:readline';
import { userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import type { usageError } from './app/errors.ts';
import type { Io, Stream } from './app/services.ts';
import { version } from './version.ts';

// A shared cache folder would let one user run code in another user's commands.
const home = process.env['HOME'];
const cacheHome = process.env['XDG_CACHE_HOME'] || (home && existsSync(home) && join(home, '.cache'));
if (cacheHome && hasDiskSpace(cacheHome)) enableCompileCache(join(cacheHome, 'jobman', 'v8'));

// glibc has read what bin/jobman sets for a server, and the programs of jobs must not inherit it.
if (process.argv[2] === 'server')
  for (const name of ['MALLOC_ARENA_MAX', 'MALLOC_MMAP_THRESHOLD_']) delete process.env[name];

// Opened on first use, because opening standard input has a side effect on pipes.
const streams: { stdout?: Stream; stderr?: Stream } = {};
/** True if the process must end by itself: Node's stream may still hold data when the command ends. */
let mustDrain = false;
/** Assigned before any command runs. */
let createUsageError!: typeof usageError;
let login: string | undefined;
let reader: Interface | undefined;
let lines: AsyncIterator<string> | undefined;
let hasInputEnded = false;
const exitSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const io: Io = {
  get stdout() {
    return (streams.stdout ??= openOutput(1, () => process.stdout));
  },
  get stderr() {
    return (streams.stderr ??= openOutput(2, () => process.stderr));
  },
  stdin: {
    get isTerminal() {
      return process.stdin.isTTY === true;
    },
    line: readLine,
    bytes: readBytes,
    keys: readKeys,
    raw: enterRawMode,
  },
  env: process.env,
  get cwd() {
    return currentFolder();
  },
  get user() {
    return (login ??= loginName());
  },
  uid: process.getuid?.() ?? -1,
  userHome: process.env['HOME'] || userInfo().homedir,
  pid: process.pid,
  // V8's memory reducer would wake the sleeping controller more often than its work does.
  launcher: [process.execPath, '--no-memory-reducer', process.argv[1] ?? ''],
  version,
  onSignal(call) {
    const listeners = exitSignals.map((name) => [name, () => call(name)] as const);
    for (const [name, listener] of listeners) process.on(name, listener);
    return () => {
      for (const [name, listener] of listeners) process.off(name, listener);
    };
  },
  onUncaught(call) {
    const listener = (error: unknown, origin: NodeJS.UncaughtExceptionOrigin): void => {
      if (call(error, origin === 'uncaughtException')) return;
      process.off('uncaughtException', listener);
      void reportBug(error).finally(() => process.exit());
    };
    process.on('uncaughtException', listener);
    return () => process.off('uncaughtException', listener);
  },
  atExit,
  now: () => Date.now(),
  resourceUsage() {
    const { rss, heapUsed } = process.memoryUsage();
    const { user, system } = process.cpuUsage();
    return { residentBytes: rss, heapBytes: heapUsed, cpuSeconds: (user + system) / 1e6 };
  },
};

// One `import()` of one file, because each further file costs time. It is not imported above, because the code cache
// must be enabled first.
import('./wiring/start.ts')
  .then(({ run, createServices, isShared, sharedUmask, usageError: imported }) => {
    createUsageError = imported;
    const services = createServices(io);
    if (isShared(services.home)) process.umask(sharedUmask);
    return run(process.argv.slice(2), services);
  })
  .then((exitCode) => {
    process.exitCode = exitCode;
    // A normal shutdown of Node would take several milliseconds.
    if (!mustDrain) process.exit();
  }, reportBug);

async function reportBug(error: unknown): Promise<void> {
  process.exitCode = 1;
  const { formatBug } = await import('./cli/bug-report.ts');
  process.stderr.write(formatBug(process.argv.slice(2), version, error));
}

/** On a full disk Node leaves an empty file for each module that it cannot cache, at every start. */
function hasDiskSpace(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(existsSync(folder) ? folder : dirname(folder));
    return bavail * bsize > 32 * 1024 * 1024;
  } catch {
    return false;
  }
}

/** Node's own stream is opened only if needed, because it loads a fifth of Node. */
function openOutput(descriptor: number, open: () => NodeJS.WriteStream): Stream {
  return writesSynchronously(descriptor) ? createSyncOutput(descriptor, open) : createStreamOutput(open());
}

/**
 * True for a file, a pipe and /dev/null, as with Node's stream on Linux
 * (https://nodejs.org/api/process.html#a-note-on-process-io).
 */
function writesSynchronously(descriptor: number): boolean {
  try {
    const facts = fstatSync(descriptor);
    return facts.isFile() || facts.isFIFO() || (facts.isCharacterDevice() && facts.rdev === statSync('/dev/null').rdev);
  } catch {
    return false;
  }
}

function createSyncOutput(descriptor: number, open: () => NodeJS.WriteStream): Stream {
  let closed = false;
  /** Takes over if another process has made the pipe non-blocking, because Node's stream can wait. */
  let fallback: Stream | undefined;
  return {
    write(text) {
      if (fallback !== undefined) {
        fallback.write(text);
        return;
      }
      let bytes = typeof text === 'string' ? Buffer.from(text) : text;
      while (!closed && bytes.length > 0) {
        try {
          bytes = bytes.subarray(writeSync(descriptor, bytes));
        } catch (error) {
          const { code } = error as NodeJS.ErrnoException;
          if (code === 'EAGAIN') {
            fallback = createStreamOutput(open());
            fallback.write(bytes);
            return;
          }
          closed = true;
          reportWriteFailure(error as NodeJS.ErrnoException);
        }
      }
    },
    flush: () => fallback?.flush() ?? Promise.resolve(),
    isTerminal: false,
    size: () => ({ columns: 80, rows: 24 }),
    onResize: () => () => undefined,
    get closed() {
      return closed || fallback?.closed === true;
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

function createStreamOutput(stream: NodeJS.WriteStream): Stream {
  let closed = false;
  mustDrain = true;
  stream.on('error', (error: NodeJS.ErrnoException) => {
    closed = true;
    reportWriteFailure(error);
  });
  return {
    write(text) {
      if (!closed) stream.write(text);
    },
    async flush() {
      // Not 'drain', which comes only after a write that filled the buffer. The callback comes after all earlier
      // writes, and with an error if no more can be written.
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
    watchReader: () => () => undefined,
  };
}

/**
 * `jobman list | head -1` closes the pipe, which is not an error; neither is a closed terminal (EIO). After any other
 * error, such as a full disk, a reader may take the partial output for all of it, so the command fails at its end.
 */
function reportWriteFailure(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE' || error.code === 'EIO') return;
  mustDrain = true;
  process.once('exit', () => (process.exitCode ||= 1));
  void import('./cli/bug-report.ts').then(({ formatFailure }) => {
    const why = error.message.replace(/^E[A-Z]+: |, write$/g, '');
    io.stderr.write(formatFailure(process.argv.slice(2), `The output is incomplete: ${why}.`));
  });
}

/** Throws JobmanError if the folder was removed. */
function currentFolder(): string {
  try {
    return process.cwd();
  } catch {
    throw createUsageError('The current folder no longer exists.');
  }
}

/** The environment's USER may be wrong. The user id if there is no name. */
function loginName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown');
  }
}

/** A signal without another listener has its usual effect, after the call. */
function atExit(call: () => void): () => void {
  const listeners = exitSignals.map((name) => [name, () => endBy(name)] as const);
  const endBy = (name: (typeof exitSignals)[number]) => {
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
  // Before all others, because a listener that removes itself would not be counted.
  for (const [name, listener] of listeners) process.prependListener(name, listener);
  return forget;
}

/** Node restores the terminal's mode when the process ends, also by a signal. */
function readKeys(call: (typed: string) => void): () => void {
  const { stdin } = process;
  closeLineReader();
  const take = (bytes: Buffer) => {
    const typed = bytes.toString('utf8');
    if (!typed.includes(ctrlZ)) {
      call(typed);
      return;
    }
    call(ctrlZ);
    stdin.setRawMode(false);
    process.kill(process.pid, 'SIGTSTP');
  };
  // The shell has set its own mode meanwhile.
  const onContinue = () => {
    stdin.setRawMode(true);
    call('');
  };
  stdin.setRawMode(true);
  stdin.on('data', take);
  // An earlier question may have paused the input; then not even Ctrl-C would arrive.
  stdin.resume();
  process.on('SIGCONT', onContinue);
  return () => {
    stdin.off('data', take);
    process.off('SIGCONT', onContinue);
    stdin.pause();
    stdin.setRawMode(false);
  };
}

/**
 * Node's raw mode still turns each newline into two characters, which breaks remote programs that move the cursor. stty
 * disables that.
 */
async function enterRawMode(): Promise<() => void> {
  const { stdin } = process;
  stdin.setRawMode(true);
  const { spawn } = await import('node:child_process');
  await new Promise<void>((resolve) => {
    const stty = spawn('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] });
    stty.on('error', () => resolve());
    stty.on('close', () => resolve());
  });
  return () => {
    // Reading may have ended, which closes the stream and restores the mode.
    if (!stdin.destroyed) stdin.setRawMode(false);
  };
}

const ctrlZ = '\u001a';

async function* readBytes(signal: AbortSignal): AsyncIterable<Uint8Array> {
  const { stdin } = process;
  // Pending input would keep the command from ending.
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

async function readLine(): Promise<string | null> {
  if (hasInputEnded) return null;
  if (lines === undefined) {
    const { createInterface } = await import('node:readline');
    reader = createInterface({ input: process.stdin });
    lines = reader[Symbol.asyncIterator]();
  }
  reader?.resume();
  // A signal that the command handles itself must end this wait.
  const handledSignals = exitSignals.filter((name) => process.listenerCount(name) > 0);
  const { promise: left, resolve: leave } = Promise.withResolvers<null>();
  const onLeave = (): void => leave(null);
  for (const name of handledSignals) process.once(name, onLeave);
  const next = await Promise.race([lines.next(), left]);
  for (const name of handledSignals) process.off(name, onLeave);
  if (next === null || next.done === true) {
    hasInputEnded = next !== null;
    closeLineReader();
    return null;
  }
  // A terminal that is still read would keep the command from ending.
  reader?.pause();
  return next.value;
}

/** Frees the input for reading keys; a later question opens a new reader. */
function closeLineReader(): void {
  reader?.close();
  reader = undefined;
  lines = undefined;
}
