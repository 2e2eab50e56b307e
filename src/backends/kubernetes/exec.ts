// Exec: a program in a container of a pod, as a session: its input, its terminal, and its end. To attach is the same for the container's own
// program: it starts nothing, the program may have printed before, and its exit code is in the state of the container.

import { notOpened, type Program, type SessionEnd } from '../../app/by-hand.ts';
import type {
  ClusterAttachRequest,
  ClusterExecRequest,
  ClusterSession,
  ClusterTarget,
  TerminalSize,
} from '../../app/cluster/cluster.ts';
import { JobmanError } from '../../app/errors.ts';
import { type Duration, second } from '../../core/time.ts';
import { type Channels, type ChannelsOf, openChannels } from './channels.ts';
import {
  createReportReader,
  endOf,
  type ExecStatus,
  notFoundCode,
  readExecStatus,
  reporting,
  whyNotBegun,
} from './exec-status.ts';
import { isForbidden } from './status.ts';
import { randomBytes } from 'node:crypto';

/** After this time a program that was told to end is not waited for any more: asked, killed three seconds later, told. */
const stopMost: Duration = 8 * second;
/** The most bytes in one message to the program. */
const messageMost = 1 << 16;

/** The input of a program and the size of its terminal. Both may be given before the line is open. */
function createInput(terminal: TerminalSize | null) {
  const opening = Promise.withResolvers<Channels | undefined>();
  let size = terminal;
  let isOver = false;
  // The fields have no other names in Kubernetes' own TerminalSize.
  const sendSize = (to: Channels | undefined, { columns, rows }: TerminalSize): void =>
    void to?.send(channel.resize, Buffer.from(JSON.stringify({ Width: columns, Height: rows })));
  let line: Channels | undefined;
  return {
    /** Undefined if there will be none. */
    line: opening.promise,
    open(opened: Channels, isPrinting = false): void {
      line = opened;
      // A prompt that was printed before is drawn again when the size changes.
      if (size !== null && isPrinting) sendSize(line, { ...size, columns: size.columns + 1 });
      if (size !== null) sendSize(line, size);
      opening.resolve(opened);
    },
    /** The program takes no more. */
    close: (): void => {
      isOver = true;
      opening.resolve(undefined);
    },
    write: async (bytes: Uint8Array): Promise<void> => {
      const to = await opening.promise;
      for (let at = 0; at < bytes.length && !isOver; at += messageMost) {
        await to?.send(channel.input, bytes.subarray(at, at + messageMost));
      }
    },
    resize: (next: TerminalSize): void => {
      size = next;
      if (!isOver) sendSize(line, next);
    },
  };
}

function endBeforeLine(error: unknown): SessionEnd {
  if (!(error instanceof JobmanError)) throw error;
  return notOpened(error, isForbidden(error));
}

/** Starts it. What goes wrong before it runs is told by its end. */
export function startExec(cluster: ChannelsOf, target: ClusterTarget, request: ClusterExecRequest): ClusterSession {
  const mark = newMark();
  const reportText = `${mark}: `;
  let line: Channels | undefined;
  let isOver = false;
  let isStopping = false;
  let hasMark = true;
  const input = createInput(request.terminal);
  const givenUp = Promise.withResolvers<SessionEnd>();
  const giveUp = (reason: string): void => givenUp.resolve({ kind: 'no_answer', reason, sent: true });

  function onOpen(opened: Channels): void {
    line = opened;
    input.open(opened);
    if (isStopping) void endByMark();
  }

  async function run(): Promise<SessionEnd> {
    const has = async (argv: readonly string[]): Promise<boolean> =>
      (await runShort(cluster, target, argv))?.status === 'Success';
    const ways = await waysHere(request, mark, reportText, has);
    for (const [index, argv] of ways.entries()) {
      if (isStopping) return { kind: 'no_answer', reason: 'it was ended before it had begun', sent: false };
      hasMark = argv[1] === mark;
      const events = { onOpen, onReport: input.close };
      const ended = await attemptExec(cluster, target, request, { argv, reportText }, events);
      if (ended.kind === 'over') return ended.end;
      if (ended.kind === 'broken') return broken(ended.why);
      if (ended.code === notFoundCode && index < ways.length - 1) continue;
      const told = Buffer.from(`${argv[0] ?? ''}: ${ended.says}\n`);
      await request.onBytes(told, request.terminal === null ? 'stderr' : 'stdout');
      return { kind: 'ended', exitCode: ended.code, signal: null };
    }
    throw new Error('the last way to run a program tells its end');
  }

  /** The program is not told that its line broke, so it is ended over another one. */
  async function broken(why: string): Promise<SessionEnd> {
    if (isStopping) return { kind: 'no_answer', reason: why, sent: true };
    const isEnded = hasMark && (await isEndedAgain(cluster, target, mark));
    const now = isEnded ? 'it was ended over another one' : 'it may go on there';
    return { kind: 'no_answer', reason: `${why}; ${now}`, sent: true };
  }

  async function endByMark(): Promise<void> {
    const noShell = 'it cannot be ended from here, because its image has no shell: it may go on there';
    if (!hasMark) return giveUp(noShell);
    try {
      const status = await runShort(cluster, target, enderOf(mark));
      if (status !== undefined && whyNotBegun(status) !== undefined) giveUp(noShell);
    } catch (error) {
      giveUp(`it cannot be ended: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  const ended = Promise.race([run(), givenUp.promise])
    .catch(endBeforeLine)
    .finally(() => {
      isOver = true;
      input.close();
      line?.close();
    });

  return {
    ended,
    write: input.write,
    end() {
      void input.line.then((to) => {
        if (to === undefined || isOver || to.end(channel.input)) return;
        giveUp('this cluster cannot be told that the input has ended; Kubernetes 1.30 can');
      });
    },
    resize: input.resize,
    stop() {
      if (isOver || isStopping) return;
      isStopping = true;
      const timer = setTimeout(() => giveUp('it has not ended although it was killed'), stopMost);
      void ended.finally(() => clearTimeout(timer)).catch(() => undefined);
      if (line !== undefined) void endByMark();
    },
  };
}

/** Whether all programs with that mark were ended over a new line; one that does not open soon is not waited for. */
async function isEndedAgain(cluster: ChannelsOf, target: ClusterTarget, mark: string): Promise<boolean> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), stopMost);
  try {
    return (await Promise.race([runShort(cluster, target, enderOf(mark)), late.promise]))?.status === 'Success';
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

/** Opens the line. Its end is `ended` with 0 when the program closed its terminal, whatever its exit code is. */
export function startAttach(
  cluster: ChannelsOf,
  { pod, container }: ClusterTarget,
  request: ClusterAttachRequest,
): ClusterSession {
  const input = createInput(request.terminal);
  let isStopped = false;
  let line: Channels | undefined;

  async function run(): Promise<SessionEnd> {
    let hasStatus = false;
    const isTerminal = String(request.terminal !== null);
    const path = `/api/v1/namespaces/${encodeURIComponent(cluster.place.namespace)}/pods/${encodeURIComponent(pod)}/attach`;
    const opened = await openChannels(cluster, {
      path: `${path}?stdin=true&stdout=${isTerminal}&stderr=false&tty=${isTerminal}&container=${encodeURIComponent(container)}`,
      what: `attach to ${pod}`,
      async onMessage(number, bytes) {
        if (number !== channel.status) {
          if (bytes.length > 0) await request.onBytes(bytes, 'stdout');
          return;
        }
        hasStatus = true;
        setTimeout(() => opened.close(), second).unref();
      },
    });
    line = opened;
    if (isStopped) opened.close();
    input.open(opened, true);
    const broken = await opened.closed;
    if (hasStatus) return { kind: 'ended', exitCode: 0, signal: null };
    return { kind: 'no_answer', reason: broken ?? 'the line was closed', sent: true };
  }

  return {
    ended: run().catch(endBeforeLine).finally(input.close),
    write: input.write,
    end() {
      void input.line.then((to) => {
        // A cluster that has no word for it ends the input with the line.
        if (to?.end(channel.input) === false && request.terminal === null) to.close();
      });
    },
    resize: input.resize,
    stop() {
      isStopped = true;
      input.close();
      line?.close();
    },
  };
}

const farewellMost: Duration = 2 * second;

type AttemptEnd =
  | { readonly kind: 'over'; readonly end: SessionEnd }
  | { readonly kind: 'not begun'; readonly code: number; readonly says: string }
  | { readonly kind: 'broken'; readonly why: string };

interface AttemptEvents {
  readonly onOpen: (line: Channels) => void;
  /** The program has reported its end; input for it would only block the line. */
  readonly onReport: () => void;
}

async function attemptExec(
  cluster: ChannelsOf,
  target: ClusterTarget,
  request: ClusterExecRequest,
  { argv, reportText }: { readonly argv: readonly string[]; readonly reportText: string },
  { onOpen, onReport }: AttemptEvents,
): Promise<AttemptEnd> {
  let status: ExecStatus | undefined;
  let farewell: NodeJS.Timeout | undefined;
  const report = createReportReader(reportText);
  const closeSoon = (): void => {
    clearTimeout(farewell);
    farewell = setTimeout(() => line.close(), farewellMost);
  };
  const streams = { stdin: request.receives, stderr: request.terminal === null, tty: request.terminal !== null };
  const line = await openChannels(cluster, {
    path: execPath(cluster.place.namespace, target, argv, streams),
    what: `run a program in ${target.pod}`,
    async onMessage(number, bytes) {
      if (number === channel.status) {
        status = readExecStatus(bytes);
        // Channels are copied side by side, so something may still come; then the cluster closes the line.
        return closeSoon();
      }
      const own = number === channel.stderr ? report.take(bytes) : bytes;
      if (own.length > 0) await request.onBytes(own, number === channel.stderr ? 'stderr' : 'stdout');
      if (report.code() === undefined) return;
      onReport();
      closeSoon();
    },
  });
  onOpen(line);
  const broken = await line.closed;
  clearTimeout(farewell);
  const rest = report.rest();
  if (rest.length > 0) await request.onBytes(rest, 'stderr');
  const code = report.code();
  if (code !== undefined) return { kind: 'over', end: { kind: 'ended', exitCode: code, signal: null } };
  if (status === undefined) return { kind: 'broken', why: broken ?? 'the line was closed before its end was told' };
  const cannot = whyNotBegun(status);
  return cannot === undefined ? { kind: 'over', end: endOf(status) } : { kind: 'not begun', ...cannot };
}

// A cluster has no way to end a program that it started for us, and a line that is closed leaves it running. So the program gets a mark in
// its environment, by which another short program in the same container finds it and ends it.

const markName = 'JOBMAN_EXEC';

/** Ends all that bear the mark: asks first, and kills three seconds later. It bears none itself. */
const ender = `for signal in TERM KILL; do
  for turn in 1 2 3; do
    found=
    for folder in /proc/[0-9]*; do
      tr '\\0' '\\n' 2>/dev/null <"$folder/environ" | grep -qxF "$1" || continue
      found=1
      [ "$turn" -gt 1 ] || kill -s "$signal" "\${folder#/proc/}" 2>/dev/null
    done
    [ -n "$found" ] || exit 0
    sleep 1
  done
done`;

function newMark(): string {
  return `${markName}=${randomBytes(8).toString('hex')}`;
}

function enderOf(mark: string): readonly string[] {
  return ['sh', '-c', ender, 'sh', mark];
}

/**
 * The ways that are tried, one after the other. Input that is read by one that cannot begin would be lost: with input it is asked before
 * what the container `has`. `reportText`: see exec-status.ts.
 */
async function waysHere(
  { program, receives, terminal }: ClusterExecRequest,
  mark: string,
  reportText: string,
  has: (argv: readonly string[]) => Promise<boolean>,
): Promise<readonly (readonly string[])[]> {
  const ways = waysToRun(program, mark);
  const [marked = [], plain = [], bare] = ways;
  if (!receives) return ways;
  if (terminal === null && (await has(['env', 'sh', '-c', ':']))) {
    return [['env', mark, ...reporting(marked.slice(2), reportText)]];
  }
  if (await has(['env', 'true'])) return [marked];
  return bare !== undefined && !(await has(['sh', '-c', ':'])) ? [bare] : [plain];
}

/**
 * With the mark; without it where the image has no `env`; and without a shell where it has none and the line needs none.
 * A container that lacks the first word says so before anything runs.
 */
function waysToRun(program: Program, mark: string): readonly (readonly string[])[] {
  const argv = program.kind === 'argv' ? program.argv : ['sh', '-c', program.line];
  const words = program.kind === 'line' ? program.line.trim().split(/\s+/) : [];
  const isPlain = words.length > 0 && words.every((word) => /^[\w@%+:,./-]+$/.test(word));
  return [['env', mark, ...argv], argv, ...(isPlain ? [words] : [])];
}

/** The channels of `exec` and `attach`. */
const channel = { input: 0, stdout: 1, stderr: 2, status: 3, resize: 4 } as const;

function execPath(
  namespace: string,
  { pod, container }: ClusterTarget,
  argv: readonly string[],
  streams: Readonly<Record<'stdin' | 'stderr' | 'tty', boolean>>,
): string {
  const query = [
    'stdout=true',
    ...Object.entries(streams).map(([name, value]) => `${name}=${String(value)}`),
    `container=${encodeURIComponent(container)}`,
    ...argv.map((word) => `command=${encodeURIComponent(word)}`),
  ];
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/exec?${query.join('&')}`;
}

/** The status of a short program without input, whose output nobody needs; undefined if the line broke before. */
async function runShort(
  cluster: ChannelsOf,
  target: ClusterTarget,
  argv: readonly string[],
): Promise<ExecStatus | undefined> {
  let status: ExecStatus | undefined;
  const opened = await openChannels(cluster, {
    path: execPath(cluster.place.namespace, target, argv, { stdin: false, stderr: true, tty: false }),
    what: `run a program in ${target.pod}`,
    onMessage(number, bytes) {
      if (number !== channel.status) return;
      status = readExecStatus(bytes);
      opened.close();
    },
  });
  await opened.closed;
  return status;
}
