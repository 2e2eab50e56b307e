// Copy: a file or a folder from here to a worker or back, as a stream of tar through a session. One stream for all of it:
// it needs no round trip for each file, keeps modes, times and links, and a host offers it without an SFTP server.
//
// It arrives in a folder of its own beside its place and is renamed into it when all of it is there. A line that breaks
// ends the tar that reads it (see session.ts), so half a copy is never renamed.

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { lstat, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import type { CopyEnd, CopyRequest, Session, SessionEnd, SessionRequest } from '../app/by-hand.ts';
import { makeFolder } from '../app/make-folder.ts';
import { keepFirst } from './keep-first.ts';
import { textOf } from './text-of.ts';

/** Begins a session on the worker that is meant. */
export type StartSession = (request: SessionRequest) => Session;

/** Exit codes of the scripts below, from sysexits(3): no such input, cannot create. */
const missing = 66;
const conflict = 73;

/** What is gathered before it is sent: each portion costs the worker a process. */
const portion = 1 << 20;

/** From here to a worker. */
export async function put(start: StartSession, request: CopyRequest & { readonly cwd: string }): Promise<CopyEnd> {
  const from = resolve(request.cwd, request.from);
  try {
    await lstat(from);
  } catch (error) {
    return { kind: 'failed', because: 'missing', reason: `${from} cannot be read: ${textOf(error)}` };
  }
  const name = basename(from);
  const taken = taker();
  const session = start({
    program: script(receiving, [request.to, name, request.replace ? 'yes' : '']),
    inside: 'host',
    receives: true,
    onBytes: taken.onBytes,
  });
  const tar = startTar(['-c', '-f', '-', '-C', dirname(from), '--', name]);
  const release = stopOn(request.signal, session, tar);
  const words = keepFirst(4_096);
  tar.stderr?.on('data', (chunk: Buffer) => {
    words.add(chunk);
  });
  const closed = tarEnd(tar);
  try {
    let end: SessionEnd | undefined;
    void session.ended.then((ended) => {
      end = ended;
      tar.kill();
    });
    await feed(tar, session, request.onProgress, () => end !== undefined);
    const code = await closed;
    // 1: a file changed while it was read. What was read of it is whole.
    if (end === undefined && code !== 0 && code !== 1) {
      session.stop();
      await session.ended;
      const reason = lastLine(words.bytes()) || `tar ended with ${code}`;
      return { kind: 'failed', because: 'failed', reason: `${from} cannot be read: ${reason}` };
    }
    if (end === undefined) session.end();
    return endOf(await session.ended, taken);
  } finally {
    release();
    tar.kill();
  }
}

/** From a worker to here. */
export async function get(start: StartSession, request: CopyRequest & { readonly cwd: string }): Promise<CopyEnd> {
  let place: { readonly folder: string; readonly name: string | null };
  try {
    place = await placeFor(resolve(request.cwd, request.to), request.to.endsWith('/'));
  } catch (error) {
    return { kind: 'failed', because: 'missing', reason: textOf(error) };
  }
  const temporary = await mkdtemp(join(place.folder, '.jobman-cp.'));
  const tar = startTar(['-x', '-p', '--no-same-owner', '-f', '-', '-C', temporary]);
  const closed = tarEnd(tar);
  const errors = keepFirst(4_096);
  tar.stderr?.on('data', (chunk: Buffer) => {
    errors.add(chunk);
  });
  const taken = taker();
  const session = start({
    program: script(sending, [request.from]),
    inside: 'host',
    receives: false,
    async onBytes(chunk, stream) {
      if (stream === 'stderr') {
        taken.onBytes(chunk, stream);
        return;
      }
      request.onProgress(chunk.length);
      if (tar.stdin?.write(chunk) === false) await Promise.race([once(tar.stdin, 'drain'), closed]);
    },
  });
  const release = stopOn(request.signal, session, tar);
  try {
    const end = await session.ended;
    if (end.kind !== 'ended' || end.exitCode !== 0) return endOf(end, taken);
    tar.stdin?.end();
    const code = await closed;
    if (code !== 0) {
      const reason = lastLine(errors.bytes()) || `tar ended with ${code}`;
      return { kind: 'failed', because: 'failed', reason: `it cannot be written below ${place.folder}: ${reason}` };
    }
    return await settle(temporary, place, request.replace);
  } catch (error) {
    return { kind: 'failed', because: 'failed', reason: textOf(error) };
  } finally {
    release();
    tar.kill();
    await closed;
    await rm(temporary, { recursive: true, force: true });
  }
}

/** Puts the one thing that was unpacked into its place. */
async function settle(
  temporary: string,
  place: { readonly folder: string; readonly name: string | null },
  replace: boolean,
): Promise<CopyEnd> {
  const [name] = await readdir(temporary);
  if (name === undefined) return { kind: 'failed', because: 'failed', reason: 'nothing arrived' };
  const target = join(place.folder, place.name ?? name);
  const isFolder = await stat(target).then(
    (facts) => facts.isDirectory(),
    () => false,
  );
  if (isFolder && !replace) return { kind: 'failed', because: 'conflict', reason: `${target} is there already` };
  if (isFolder) await rename(target, join(temporary, `${name}.old`));
  await rename(join(temporary, name), target);
  return { kind: 'done', path: target };
}

/** Where a copy to that path goes: into a folder that is there, or beside what is there under a new name. */
async function placeFor(
  path: string,
  isFolder: boolean,
): Promise<{ readonly folder: string; readonly name: string | null }> {
  // A person's folder, open to whom they usually let in.
  if (isFolder) makeFolder(path, 0o777);
  const facts = await stat(path).catch(() => undefined);
  if (facts?.isDirectory() === true) return { folder: path, name: null };
  const folder = dirname(path);
  const above = await stat(folder).catch(() => undefined);
  if (above?.isDirectory() !== true) throw new Error(`there is no folder ${folder}`);
  return { folder, name: basename(path) };
}

async function feed(
  tar: ChildProcess,
  session: Session,
  onProgress: (bytes: number) => void,
  isOver: () => boolean,
): Promise<void> {
  let held: Buffer[] = [];
  let length = 0;
  const send = async (): Promise<void> => {
    const bytes = Buffer.concat(held);
    held = [];
    length = 0;
    await session.write(bytes);
    onProgress(bytes.length);
  };
  try {
    for await (const chunk of tar.stdout as AsyncIterable<Buffer>) {
      held.push(chunk);
      length += chunk.length;
      if (length >= portion) await send();
      if (isOver()) return;
    }
  } catch {
    // Torn by a kill; the session's end says why.
  }
  if (length > 0 && !isOver()) await send();
}

function startTar(args: readonly string[]): ChildProcess {
  const tar = spawn('tar', args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' },
  });
  tar.stdin?.on('error', () => undefined);
  if (args[0] === '-c') tar.stdin?.end();
  else tar.stdout?.resume();
  return tar;
}

/** The exit code; null when a signal ended it or there is no tar. */
function tarEnd(tar: ChildProcess): Promise<number | null> {
  return new Promise((done) => {
    tar.once('error', () => {
      done(null);
    });
    tar.once('close', done);
  });
}

function stopOn(signal: AbortSignal, session: Session, tar: ChildProcess): () => void {
  const stop = (): void => {
    session.stop();
    tar.kill();
  };
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop);
  return () => {
    signal.removeEventListener('abort', stop);
  };
}

function taker(): {
  readonly onBytes: (chunk: Uint8Array, stream: 'stdout' | 'stderr') => void;
  out(): string;
  err(): string;
} {
  const kept = { stdout: keepFirst(8_192), stderr: keepFirst(8_192) };
  return {
    onBytes: (chunk, stream) => kept[stream].add(chunk),
    out: () => new TextDecoder().decode(kept.stdout.bytes()).trim(),
    err: () => lastLine(kept.stderr.bytes()),
  };
}

function endOf(end: SessionEnd, taken: ReturnType<typeof taker>): CopyEnd {
  if (end.kind === 'no_answer') return { kind: 'no_answer', reason: end.reason };
  if (end.exitCode === 0) return { kind: 'done', path: taken.out() };
  const because = end.exitCode === missing ? 'missing' : end.exitCode === conflict ? 'conflict' : 'failed';
  const ended = end.signal === null ? `it ended with ${end.exitCode} there` : `it was ended by SIG${end.signal} there`;
  return { kind: 'failed', because, reason: taken.err() || ended };
}

function lastLine(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).trim().split('\n').at(-1) ?? '';
}

function script(text: string, args: readonly string[]): SessionRequest['program'] {
  return { kind: 'argv', argv: ['sh', '-c', text, 'sh', ...args] };
}

/** Paths below the login folder are told with a tilde: so several workers say the same. */
const expand = `fail() {
  path=$3
  case $path in "$HOME"/*) path="~/\${path#"$HOME"/}" ;; esac
  printf '%s%s%s\\n' "$2" "$path" "\${4:-}" >&2
  exit "$1"
}
command -v tar >/dev/null || fail 69 'the host has no tar'
expand() {
  case $1 in
    '' | '~') path=$HOME ;;
    '~/'*) path=$HOME/\${1#'~/'} ;;
    /*) path=$1 ;;
    *) path=$HOME/$1 ;;
  esac
}
`;

const sending = `${expand}expand "$1"
if [ -d "$path" ]; then path=$(cd "$path" && pwd -P); fi
[ -e "$path" ] || [ -L "$path" ] || fail ${missing} 'there is no ' "$path"
[ "$path" != / ] || fail ${missing} 'the root folder is not copied'
tar -c -f - -C "$(dirname "$path")" -- "$(basename "$path")"
code=$?
# 1: a file changed while it was read, as logs do. What was read of it is whole.
[ $code -le 1 ] || exit 74
`;

const receiving = `${expand}expand "$1"
name=$2
case $1 in */) mkdir -p "$path" || fail 74 'cannot make the folder ' "$path" ;; esac
if [ -d "$path" ]; then
  folder=\${path%/}
  target=$folder/$name
else
  folder=$(dirname "$path")
  target=$path
  [ -d "$folder" ] || fail ${missing} 'there is no folder ' "$folder"
fi
if [ -d "$target" ] && [ -z "$3" ]; then fail ${conflict} '' "$target" ' is there already'; fi
temporary=$(mktemp -d "$folder/.jobman-cp.XXXXXX" 2>/dev/null) || fail 74 'cannot write below ' "$folder"
trap 'rm -rf "$temporary"' EXIT
trap 'exit 143' HUP INT TERM
# Nobody may be left to read what it says; a shell that dies of that does not tidy up.
trap '' PIPE
tar -x -p --no-same-owner -f - -C "$temporary" || fail 74 'it cannot be written below ' "$folder"
[ -e "$temporary/$name" ] || [ -L "$temporary/$name" ] || fail 74 'nothing arrived'
if [ -d "$target" ]; then mv "$target" "$temporary/$name.old" || fail 74 '' "$target" ' cannot be exchanged'; fi
mv -f "$temporary/$name" "$target" || fail 74 'it cannot be put to ' "$target"
printf '%s\\n' "$target"
`;
