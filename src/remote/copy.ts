// Copy: a file or a folder from here to a worker or back, as a stream of tar through a session. One stream for all of it:
// it needs no round trip for each file, keeps modes, times and links, and a host offers it without an SFTP server.
//
// It arrives in a folder of its own beside its place and is renamed into it when all of it is there. A line that breaks
// ends the tar that reads it (see session.ts), so half a copy is never renamed.

import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, lstat, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, posix, resolve } from 'node:path';
import { textOf } from '../app/errors.ts';
import type { CopyEnd, CopyRequest, Session, SessionEnd, SessionRequest } from '../app/by-hand.ts';
import { makeFolder } from '../app/files.ts';
import { removeFolder } from '../app/clean.ts';
import { keepFirst } from './process.ts';

export type StartSession = (request: SessionRequest) => Session;

export interface CopyFrom extends CopyRequest {
  readonly cwd: string;
  /** In a `container` relative paths start at the working directory, since it need not have a home. */
  readonly site?: 'worker' | 'container';
}

/** Exit codes of the scripts below, from sysexits(3): no such input, cannot create. */
const missing = 66;
const conflict = 73;

/** So much is gathered before it is sent: each portion costs the worker a process. */
const portion = 1 << 20;

export async function put(start: StartSession, request: CopyFrom): Promise<CopyEnd> {
  const from = resolve(request.cwd, request.from);
  try {
    await lstat(from);
  } catch (error) {
    return { kind: 'failed', because: 'missing', reason: `${from} cannot be read: ${textOf(error)}` };
  }
  const name = basename(from);
  const taken = taker();
  /** Before the end of the archive this is a refusal: the script reads on and waits for the end of its input. */
  let isAnswered = false;
  const session = start({
    program: script(receiving, request, [request.to, name, request.replace ? 'yes' : '']),
    inside: 'host',
    receives: true,
    onBytes(chunk, stream) {
      taken.onBytes(chunk, stream);
      if (stream === 'stdout') isAnswered = true;
    },
  });
  const tar = startTar(['-c', '-f', '-', '-C', dirname(from), '--', name]);
  const release = stopOn(request.signal, session, tar);
  const words = keepFirst(4_096);
  tar.stderr?.on('data', (chunk: Buffer) => {
    words.add(chunk);
  });
  const closed = endOfChild(tar);
  try {
    let end: SessionEnd | undefined;
    void session.ended.then((ended) => {
      end = ended;
      tar.kill();
    });
    await feed(tar, session, request.onProgress, () => end !== undefined || isAnswered);
    if (isAnswered) tar.kill();
    const code = await closed;
    // 1: a file changed while it was read. What was read of it is whole.
    if (end === undefined && !isAnswered && code !== 0 && code !== 1) {
      session.stop();
      await session.ended;
      const reason = lastLine(words.bytes()) || `tar ended with ${code}`;
      return { kind: 'failed', because: 'failed', reason: `${from} cannot be read: ${reason}` };
    }
    if (end === undefined) session.end();
    const sent = endOf(await session.ended, taken, request);
    return sent.kind === 'done' ? { ...sent, bytes: await fileBytes(from) } : sent;
  } finally {
    release();
    tar.kill();
  }
}

/**
 * From a worker to here. A worker runs other people's programs, so its archive is untrusted: acceptCopy checks it. The copy has
 * the name that was asked for, or the one given as its target, never a name that the worker chose.
 */
export async function get(start: StartSession, request: CopyFrom): Promise<CopyEnd> {
  const asked = askedName(request.from);
  let place: { readonly folder: string; readonly name: string | null };
  try {
    place = await placeFor(resolve(request.cwd, request.to), request.to.endsWith('/'));
  } catch (error) {
    return { kind: 'failed', because: 'missing', reason: textOf(error) };
  }
  const name = place.name ?? asked ?? homeName;
  const target = join(place.folder, name);
  if (!request.replace && (await isThere(target))) return inTheWay(target);
  const temporary = await mkdtemp(join(place.folder, '.jobman-cp.'));
  const received = join(temporary, 'received');
  await mkdir(received);
  // Without --no-same-permissions tar keeps setuid bits when root runs it.
  const tar = startTar(['-x', '--no-same-permissions', '--no-same-owner', '-f', '-', '-C', received]);
  const closed = endOfChild(tar);
  const errors = keepFirst(4_096);
  tar.stderr?.on('data', (chunk: Buffer) => {
    errors.add(chunk);
  });
  const taken = taker();
  const session = start({
    program: script(sending, request, [request.from]),
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
    if (end.kind !== 'ended' || end.exitCode !== 0) return endOf(end, taken, request);
    tar.stdin?.end();
    const code = await closed;
    if (code !== 0) {
      const reason = lastLine(errors.bytes()) || `tar ended with ${code}`;
      return { kind: 'failed', because: 'failed', reason: `it cannot be written below ${place.folder}: ${reason}` };
    }
    return await acceptCopy({ received, aside: join(temporary, 'aside'), asked, target, replace: request.replace });
  } catch (error) {
    return { kind: 'failed', because: 'failed', reason: textOf(error) };
  } finally {
    release();
    tar.kill();
    await closed;
    await removeFolder(temporary).catch(() => undefined);
  }
}

const homeName = 'home';

/**
 * The name of a worker's path as a person wrote it; null for one that ends in no name, such as `~`: the worker resolves it, and
 * would choose the name.
 */
function askedName(path: string): string | null {
  const name = posix.basename(posix.normalize(path === '' ? '~' : path));
  return ['', '.', '..', '~'].includes(name) ? null : name;
}

async function isThere(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined;
}

function inTheWay(target: string): CopyEnd {
  return { kind: 'failed', because: 'conflict', reason: `${target} is there already` };
}

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

function endOfChild(child: ChildProcess): Promise<number | null> {
  return new Promise((done) => {
    child.once('error', () => {
      done(null);
    });
    child.once('close', done);
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

function endOf(end: SessionEnd, taken: ReturnType<typeof taker>, { site }: Pick<CopyFrom, 'site'>): CopyEnd {
  if (end.kind === 'no_answer') return { kind: 'no_answer', reason: end.reason };
  if (end.exitCode === 0) return { kind: 'done', path: taken.out() };
  // As a shell says it of a program that is not there: here of the shell itself.
  if (site === 'container' && end.exitCode === 127) {
    const reason = 'the image has no sh, and a copy needs its sh and tar';
    return { kind: 'failed', because: 'failed', reason };
  }
  const because = end.exitCode === missing ? 'missing' : end.exitCode === conflict ? 'conflict' : 'failed';
  const ended = end.signal === null ? `it ended with ${end.exitCode} there` : `it was ended by SIG${end.signal} there`;
  return { kind: 'failed', because, reason: taken.err() || ended };
}

function lastLine(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).trim().split('\n').at(-1) ?? '';
}

function script(text: string, { site }: Pick<CopyFrom, 'site'>, args: readonly string[]): SessionRequest['program'] {
  const begin = site === 'container' ? inContainer : onWorker;
  return { kind: 'argv', argv: ['sh', '-c', `${begin}${expand}${text}`, 'sh', ...args] };
}

const onWorker = `start=$HOME
site=host
drains=
`;

/**
 * HOME may be missing or `/`; the working directory is used in its place then. A container runtime may never report the end of a
 * program that leaves its input unread, so a script that refuses a copy reads on until we have seen its answer.
 */
const inContainer = `start=$PWD
site=image
drains=yes
case \${HOME:-/} in / | //*) HOME=$PWD ;; esac
`;

/** Paths below the login folder are told with a tilde: so several workers say the same. */
const expand = `fail() {
  path=$3
  case $path in "$HOME"/*) path="~/\${path#"$HOME"/}" ;; esac
  printf '%s%s%s\\n' "$2" "$path" "\${4:-}" >&2
  if [ -n "$drains" ]; then echo refused; cat >/dev/null 2>&1 || while read -r line; do :; done; fi
  exit "$1"
}
command -v tar >/dev/null || fail 69 "the $site has no tar"
expand() {
  case $1 in
    '') path=$start ;;
    '~') path=$HOME ;;
    '~/'*) path=$HOME/\${1#'~/'} ;;
    /*) path=$1 ;;
    *) path=$start/$1 ;;
  esac
}
`;

const sending = `expand "$1"
if [ -d "$path" ]; then path=$(cd "$path" && pwd -P); fi
[ -e "$path" ] || [ -L "$path" ] || fail ${missing} 'there is no ' "$path"
[ "$path" != / ] || fail ${missing} 'the root folder is not copied'
tar -c -f - -C "$(dirname "$path")" -- "$(basename "$path")"
code=$?
# 1: a file changed while it was read, as logs do. What was read of it is whole.
[ $code -le 1 ] || exit 74
`;

const receiving = `expand "$1"
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
if [ -z "$3" ] && { [ -e "$target" ] || [ -L "$target" ]; }; then fail ${conflict} '' "$target" ' is there already'; fi
temporary=$(mktemp -d "$folder/.jobman-cp.XXXXXX" 2>/dev/null) || fail 74 'cannot write below ' "$folder"
trap 'rm -rf "$temporary"' EXIT
trap 'exit 143' HUP INT TERM
# Nobody may be left to read what it says; a shell that dies of that does not tidy up.
trap '' PIPE
# -o: no-same-owner, also for the tar of BusyBox.
tar -x -p -o -f - -C "$temporary" || fail 74 'it cannot be written below ' "$folder"
[ -e "$temporary/$name" ] || [ -L "$temporary/$name" ] || fail 74 'nothing arrived'
if [ -d "$target" ] || { [ -d "$temporary/$name" ] && [ -e "$target" ]; }; then mv "$target" "$temporary/$name.old" || fail 74 '' "$target" ' cannot be exchanged'; fi
mv -f "$temporary/$name" "$target" || fail 74 'it cannot be put to ' "$target"
printf '%s\\n' "$target"
`;

interface ReceivedCopy {
  /** A private folder into which the archive was unpacked. */
  readonly received: string;
  /** A path on the same file system for the entry that is replaced; its caller deletes it. */
  readonly aside: string;
  /** The name that the entry must have; null when the worker resolved the path. */
  readonly asked: string | null;
  readonly target: string;
  readonly replace: boolean;
}

/**
 * Moves the one entry that was received to `target`. Refuses an archive with another number of entries, or with one of another
 * name, and a target that is there already unless `replace` allows it. Device nodes, FIFOs and sockets are left out, and
 * files lose their setuid, setgid and sticky bits.
 */
async function acceptCopy({ received, aside, asked, target, replace }: ReceivedCopy): Promise<CopyEnd> {
  const names = await readdir(received);
  const [name] = names;
  if (name === undefined) return failed('nothing arrived');
  if (names.length > 1) return failed(`${names.length} entries arrived instead of one (${listed(names)})`);
  const entry = join(received, name);
  const facts = await lstat(entry);
  // The worker resolves a path that is a link to a folder, and sends the folder under its own name.
  if (asked !== null && name !== asked && !facts.isDirectory())
    return failed(`${JSON.stringify(name)} arrived instead of ${JSON.stringify(asked)}`);
  const leftOut = await removeSpecial(entry);
  if ((await lstat(entry).catch(() => undefined)) === undefined)
    return failed('it is a device, a FIFO or a socket, which are not copied');
  const old = await lstat(target).catch(() => undefined);
  if (old !== undefined && !replace)
    return { kind: 'failed', because: 'conflict', reason: `${target} is there already` };
  // One file replaces another in one step; a folder has to be moved away first.
  if (old !== undefined && (old.isDirectory() || facts.isDirectory())) {
    await mkdir(aside);
    await rename(target, join(aside, 'replaced'));
  }
  await rename(entry, target);
  return { kind: 'done', path: target, bytes: await fileBytes(target), ...(leftOut === 0 ? {} : { leftOut }) };
}

/** Deletes device nodes, FIFOs and sockets at and below the path, and drops special mode bits of files. Returns how many it deleted. */
async function removeSpecial(path: string): Promise<number> {
  const facts = await lstat(path);
  // A link has no rights of its own, and what it leads to is not part of the copy.
  if (facts.isSymbolicLink()) return 0;
  if (!facts.isFile() && !facts.isDirectory()) {
    await rm(path);
    return 1;
  }
  if (!facts.isDirectory()) {
    if ((facts.mode & 0o7000) !== 0) await chmod(path, facts.mode & 0o777);
    return 0;
  }
  // The bits of a folder stay, because a folder inherits setgid from the folder that it is made in.
  if ((facts.mode & 0o500) !== 0o500) await chmod(path, facts.mode | 0o700);
  let count = 0;
  for (const name of await readdir(path)) count += await removeSpecial(join(path, name));
  return count;
}

async function fileBytes(path: string): Promise<number> {
  const facts = await lstat(path);
  if (facts.isFile()) return facts.size;
  if (!facts.isDirectory()) return 0;
  let bytes = 0;
  for (const name of await readdir(path)) bytes += await fileBytes(join(path, name));
  return bytes;
}

function failed(reason: string): CopyEnd {
  return { kind: 'failed', because: 'failed', reason };
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, 3).map((name) => JSON.stringify(name));
  return names.length > shown.length ? `${shown.join(', ')}, ...` : shown.join(', ');
}
