// Copy: a file or folder from this machine to a worker or back, as one tar stream through a session. It needs no round
// trip per file, keeps modes, times and links, and works on a host without an SFTP server.
//
// The copy arrives in a temporary folder next to its target and is renamed when it is complete. A broken connection
// ends the tar that reads it (see session.ts), so half a copy is never renamed.

import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, lstat, mkdir, mkdtemp, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { basename, dirname, join, posix, resolve } from 'node:path';
import { isFileMissing, messageOf } from '../app/errors.ts';
import type { CopyEnd, CopyRequest, Session, SessionEnd, SessionRequest } from '../app/worker-access.ts';
import { makeFolder } from '../files/files.ts';
import { removeFolder } from '../files/job-folders.ts';
import { createOutputBuffer } from './process.ts';

export type StartSession = (request: SessionRequest) => Session;

export interface RemoteCopyRequest extends CopyRequest {
  readonly cwd: string;
  /** In a `container`, relative paths start at the working directory, because it may have no home. */
  readonly runsIn?: 'worker' | 'container';
}

/** Exit codes of the scripts below, from sysexits(3): no such input, cannot create. */
const missingCode = 66;
const conflictCode = 73;

/** Data is sent in chunks of this size, because each chunk costs the worker a process. */
const chunkBytes = 1 << 20;

export async function copyToRemote(start: StartSession, request: RemoteCopyRequest): Promise<CopyEnd> {
  const from = resolve(request.cwd, request.from);
  try {
    await lstat(from);
  } catch (error) {
    const problem = isFileMissing(error) ? 'does not exist' : `cannot be read: ${messageOf(error)}`;
    return { kind: 'failed', cause: 'missing', reason: `${from} ${problem} on this machine` };
  }
  const name = basename(from);
  const output = createOutputBuffers();
  /** An answer before the end of the archive is a refusal: the script reads on and waits for the end of its input. */
  let isAnswered = false;
  const session = start({
    program: copyScript(receiveBody, request, [request.to, name, request.replace ? 'yes' : '']),
    environment: 'host',
    hasInput: true,
    onBytes(chunk, stream) {
      output.onBytes(chunk, stream);
      if (stream === 'stdout') isAnswered = true;
    },
  });
  const { tar, closed, problem } = startTar(['-c', '-f', '-', '-C', dirname(from), '--', name]);
  const release = stopOn(request.signal, session, tar);
  try {
    let end: SessionEnd | undefined;
    void session.ended.then((ended) => {
      end = ended;
      tar.kill();
    });
    await feed(tar, session, request.onProgress, () => end !== undefined || isAnswered);
    if (isAnswered) tar.kill();
    const code = await closed;
    // 1: a file changed while it was read. The archive is still complete.
    if (end === undefined && !isAnswered && code !== 0 && code !== 1) {
      session.stop();
      await session.ended;
      return failed(`${from} cannot be read: ${await problem()}`);
    }
    if (end === undefined) session.end();
    const sent = toCopyEnd(await session.ended, output, request);
    return sent.kind === 'done' ? { ...sent, bytes: await fileBytes(from) } : sent;
  } finally {
    release();
    tar.kill();
  }
}

/**
 * A worker runs other users' programs, so its archive is untrusted: acceptCopy checks it. The copy has the requested
 * name or the target's, never a name chosen by the worker.
 */
export async function copyFromRemote(start: StartSession, request: RemoteCopyRequest): Promise<CopyEnd> {
  const path = resolve(request.cwd, request.to);
  const isNewFolder = request.to.endsWith('/') && !(await exists(path));
  const end = await receiveCopy(start, request);
  // Without a copy the new folder would stay empty.
  if (isNewFolder && end.kind !== 'done') await rmdir(path).catch(() => undefined);
  return end;
}

async function receiveCopy(start: StartSession, request: RemoteCopyRequest): Promise<CopyEnd> {
  const requestedName = nameOf(request.from);
  let destination: { readonly folder: string; readonly name: string | null };
  try {
    destination = await findDestination(resolve(request.cwd, request.to), request.to.endsWith('/'));
  } catch (error) {
    return { kind: 'failed', cause: 'missing', reason: messageOf(error) };
  }
  const name = destination.name ?? requestedName ?? homeName;
  const target = join(destination.folder, name);
  if (!request.replace && (await exists(target))) return targetExists(target);
  const temporary = await mkdtemp(join(destination.folder, '.jobman-cp.'));
  const received = join(temporary, 'received');
  await mkdir(received);
  // Without --no-same-permissions tar keeps setuid bits when root runs it.
  const extract = ['-x', '--no-same-permissions', '--no-same-owner', '-f', '-', '-C', received];
  const { tar, closed, problem } = startTar(extract);
  const output = createOutputBuffers();
  const session = start({
    program: copyScript(sendBody, request, [request.from]),
    environment: 'host',
    hasInput: false,
    async onBytes(chunk, stream) {
      if (stream === 'stderr') {
        output.onBytes(chunk, stream);
        return;
      }
      request.onProgress(chunk.length);
      if (!tar.stdin.write(chunk)) await Promise.race([once(tar.stdin, 'drain'), closed]);
    },
  });
  const release = stopOn(request.signal, session, tar);
  try {
    const end = await session.ended;
    if (end.kind !== 'ended' || end.exitCode !== 0) return toCopyEnd(end, output, request);
    tar.stdin.end();
    if ((await closed) !== 0) return failed(`cannot write to ${destination.folder}: ${await problem()}`);
    return await acceptCopy({
      received,
      replacedPath: join(temporary, 'aside'),
      expectedName: requestedName,
      target,
      replace: request.replace,
    });
  } catch (error) {
    return failed(messageOf(error));
  } finally {
    release();
    tar.kill();
    await closed;
    await removeFolder(temporary).catch(() => undefined);
  }
}

const homeName = 'home';

/** Null for a path without a name, such as `~`: the worker resolves it, and would choose the name. */
function nameOf(path: string): string | null {
  const name = posix.basename(posix.normalize(path === '' ? '~' : path));
  return ['', '.', '..', '~'].includes(name) ? null : name;
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined;
}

function targetExists(target: string): CopyEnd {
  return { kind: 'failed', cause: 'conflict', reason: `${target} exists` };
}

async function findDestination(
  path: string,
  isFolder: boolean,
): Promise<{ readonly folder: string; readonly name: string | null }> {
  // A user's folder gets the user's own umask.
  if (isFolder) makeFolder(path, 0o777);
  const facts = await stat(path).catch(() => undefined);
  if (facts?.isDirectory() === true) return { folder: path, name: null };
  const folder = dirname(path);
  const above = await stat(folder).catch(() => undefined);
  if (above?.isDirectory() !== true) throw new Error(`the folder ${folder} does not exist`);
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
      if (length >= chunkBytes) await send();
      if (isOver()) return;
    }
  } catch {
    // The session's end gives the reason.
  }
  if (length > 0 && !isOver()) await send();
}

function startTar(args: readonly string[]) {
  const tar = spawn('tar', args, { stdio: 'pipe', env: { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' } });
  const errors = createOutputBuffer(4_096);
  tar.stderr.on('data', (chunk: Buffer) => errors.add(chunk));
  tar.stdin.on('error', () => undefined);
  if (args[0] === '-c') tar.stdin.end();
  else tar.stdout.resume();
  const closed = new Promise<number | null>((done) => {
    tar.once('error', () => done(null));
    tar.once('close', done);
  });
  const problem = async (): Promise<string> => lastLine(errors.bytes()) || `tar exited with code ${await closed}`;
  return { tar, closed, problem };
}

function stopOn(signal: AbortSignal, session: Session, tar: ChildProcess): () => void {
  const stop = (): void => {
    session.stop();
    tar.kill();
  };
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop);
  return () => signal.removeEventListener('abort', stop);
}

function createOutputBuffers() {
  const kept = { stdout: createOutputBuffer(8_192), stderr: createOutputBuffer(8_192) };
  return {
    onBytes: (chunk: Uint8Array, stream: 'stdout' | 'stderr') => kept[stream].add(chunk),
    out: () => new TextDecoder().decode(kept.stdout.bytes()).trim(),
    err: () => lastLine(kept.stderr.bytes()),
  };
}

function toCopyEnd(
  end: SessionEnd,
  output: ReturnType<typeof createOutputBuffers>,
  { runsIn }: Pick<RemoteCopyRequest, 'runsIn'>,
): CopyEnd {
  if (end.kind === 'unreachable') return { kind: 'unreachable', reason: end.reason };
  if (end.exitCode === 0) return { kind: 'done', path: output.out() };
  // A shell reports a missing program as 127; here the shell itself is missing.
  if (runsIn === 'container' && end.exitCode === 127) {
    const reason = 'the image has no sh; a copy needs sh and tar';
    return { kind: 'failed', cause: 'failed', reason };
  }
  const cause = end.exitCode === missingCode ? 'missing' : end.exitCode === conflictCode ? 'conflict' : 'failed';
  const ended = end.signal === null ? `tar exited with code ${end.exitCode} there` : `SIG${end.signal} ended tar there`;
  return { kind: 'failed', cause, reason: output.err() || ended };
}

function lastLine(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).trim().split('\n').at(-1) ?? '';
}

function copyScript(
  text: string,
  { runsIn }: Pick<RemoteCopyRequest, 'runsIn'>,
  args: readonly string[],
): SessionRequest['program'] {
  const begin = runsIn === 'container' ? containerPrelude : workerPrelude;
  return { kind: 'argv', argv: ['sh', '-c', `${begin}${expandFunctions}${text}`, 'sh', ...args] };
}

const workerPrelude = `start=$HOME
site=host
drains=
`;

/**
 * HOME may be missing or `/`; the working directory replaces it then. A container runtime may never report the end of a
 * program that leaves its input unread, so a script that refuses a copy reads on until we have seen its answer.
 */
const containerPrelude = `start=$PWD
site=image
drains=yes
case \${HOME:-/} in / | //*) HOME=$PWD ;; esac
`;

/** Paths below the login folder are printed with a tilde, so that several workers print the same. */
const expandFunctions = `fail() {
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

const sendBody = `expand "$1"
if [ -d "$path" ]; then path=$(cd "$path" && pwd -P); fi
[ -e "$path" ] || [ -L "$path" ] || fail ${missingCode} '' "$path" ' does not exist'
[ "$path" != / ] || fail ${missingCode} 'the root folder cannot be copied'
tar -c -f - -C "$(dirname "$path")" -- "$(basename "$path")"
code=$?
# 1: a file changed while it was read, as logs do. The archive is complete.
[ $code -le 1 ] || exit 74
`;

const receiveBody = `expand "$1"
name=$2
case $1 in */) mkdir -p "$path" || fail 74 'cannot create the folder ' "$path" ;; esac
if [ -d "$path" ]; then
  folder=\${path%/}
  target=$folder/$name
else
  folder=$(dirname "$path")
  target=$path
  [ -d "$folder" ] || fail ${missingCode} 'the folder ' "$folder" ' does not exist'
fi
if [ -z "$3" ] && { [ -e "$target" ] || [ -L "$target" ]; }; then fail ${conflictCode} '' "$target" ' exists'; fi
temporary=$(mktemp -d "$folder/.jobman-cp.XXXXXX" 2>/dev/null) || fail 74 'cannot write to ' "$folder"
trap 'rm -rf "$temporary"' EXIT
trap 'exit 143' HUP INT TERM
# A closed output must not end the shell before it removes its temporary folder.
trap '' PIPE
# -o: no-same-owner, also for the tar of BusyBox.
tar -x -p -o -f - -C "$temporary" || fail 74 'cannot write to ' "$folder"
[ -e "$temporary/$name" ] || [ -L "$temporary/$name" ] || fail 74 'nothing arrived'
if [ -d "$target" ] || { [ -d "$temporary/$name" ] && [ -e "$target" ]; }; then mv "$target" "$temporary/$name.old" || fail 74 'cannot replace ' "$target"; fi
mv -f "$temporary/$name" "$target" || fail 74 'cannot write ' "$target"
printf '%s\\n' "$target"
`;

interface ReceivedCopy {
  readonly received: string;
  /** A path on the same file system for the entry that is replaced; its caller deletes it. */
  readonly replacedPath: string;
  /** Null when the worker resolved the path. */
  readonly expectedName: string | null;
  readonly target: string;
  readonly replace: boolean;
}

/**
 * Refuses several entries, another name, and an existing target unless `replace` is true. Device nodes, FIFOs and
 * sockets are skipped, and files lose their setuid, setgid and sticky bits.
 */
async function acceptCopy({ received, replacedPath, expectedName, target, replace }: ReceivedCopy): Promise<CopyEnd> {
  const names = await readdir(received);
  const [name] = names;
  if (name === undefined) return failed('nothing arrived');
  if (names.length > 1) return failed(`${names.length} entries arrived instead of one (${formatNames(names)})`);
  const entry = join(received, name);
  const facts = await lstat(entry);
  // The worker resolves a path that is a link to a folder, and sends the folder under its own name.
  if (expectedName !== null && name !== expectedName && !facts.isDirectory())
    return failed(`${JSON.stringify(name)} arrived instead of ${JSON.stringify(expectedName)}`);
  const leftOut = await removeSpecial(entry);
  if (!(await exists(entry))) return failed('devices, FIFOs and sockets are not copied');
  const old = await lstat(target).catch(() => undefined);
  if (old !== undefined && !replace) return targetExists(target);
  // One file replaces another in one step; a folder must be moved away first.
  if (old !== undefined && (old.isDirectory() || facts.isDirectory())) {
    await mkdir(replacedPath);
    await rename(target, join(replacedPath, 'replaced'));
  }
  await rename(entry, target);
  return { kind: 'done', path: target, bytes: await fileBytes(target), ...(leftOut === 0 ? {} : { skipped: leftOut }) };
}

/** Deletes special files at and below the path and returns their number. Clears special mode bits of files. */
async function removeSpecial(path: string): Promise<number> {
  const facts = await lstat(path);
  // A link has no mode of its own, and its target is not part of the copy.
  if (facts.isSymbolicLink()) return 0;
  if (!facts.isFile() && !facts.isDirectory()) {
    await rm(path);
    return 1;
  }
  if (!facts.isDirectory()) {
    if ((facts.mode & 0o7000) !== 0) await chmod(path, facts.mode & 0o777);
    return 0;
  }
  // A folder keeps its bits, because it inherits setgid from its parent folder.
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
  return { kind: 'failed', cause: 'failed', reason };
}

function formatNames(names: readonly string[]): string {
  const shown = names.slice(0, 3).map((name) => JSON.stringify(name));
  return names.length > shown.length ? `${shown.join(', ')}, ...` : shown.join(', ');
}
