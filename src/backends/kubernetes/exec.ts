// Exec: a program in a container of a pod. A cluster has no way to end one: a line that is closed leaves it running. So it
// gets a mark in its environment, by which another short program in the same container finds it and ends it.

import { randomBytes } from 'node:crypto';
import { notOpened, type Program, type SessionEnd } from '../../app/by-hand.ts';
import type { ClusterExecRequest, ClusterSession, ClusterTarget, TerminalSize } from '../../app/cluster/cluster.ts';
import { JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/time.ts';
import { openChannels, type Channels, type ChannelsOf } from './channels.ts';
import { createReportReader, reporting } from './exec-report.ts';
import { isForbidden } from './status.ts';

/** The channels of `exec` and `attach`. */
export const channel = { input: 0, stdout: 1, stderr: 2, status: 3, resize: 4 } as const;

/** How the program ended, on the channel of status. */
interface Status {
  readonly status?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: { readonly causes?: readonly { readonly reason?: string; readonly message?: string }[] };
}

/** After this time a program that was told to end is not waited for any more: asked, killed three seconds later, told. */
const stopMost: Duration = 8 * second;
/** How long a cluster may take to close the line after it has told the end. */
const farewellMost: Duration = 2 * second;
/** The most bytes in one message to the program. */
export const messageMost = 1 << 16;

/** The variable that marks the program and whatever it starts. */
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

const enderOf = (mark: string): readonly string[] => ['sh', '-c', ender, 'sh', mark];

/** Starts it. What goes wrong before it runs is told by its end. */
export function startExec(
  cluster: ChannelsOf & { readonly namespace: string },
  target: ClusterTarget,
  request: ClusterExecRequest,
): ClusterSession {
  const mark = `${markName}=${randomBytes(8).toString('hex')}`;
  const ways = waysToRun(request.program, mark);
  const reportText = `${mark}: `;
  let line: Channels | undefined;
  let isOver = false;
  let isStopping = false;
  let hasMark = true;
  /** The program has reported its end; input for it would only block the line. */
  let hasEnded = false;
  let size: TerminalSize | null = request.terminal;
  let atHand: (line: Channels | undefined) => void = () => undefined;
  /** What is written before the line stands waits for it. */
  const standing = new Promise<Channels | undefined>((resolve) => void (atHand = resolve));
  let giveUp: (reason: string) => void = () => undefined;
  const givenUp = new Promise<SessionEnd>((resolve) => {
    giveUp = (reason) => resolve({ kind: 'no_answer', reason, sent: true });
  });

  /** One way to start it; undefined when the container has no such program and nothing was run. */
  async function attempt(argv: readonly string[], isLast: boolean): Promise<SessionEnd | undefined> {
    let status: Status | undefined;
    let farewell: NodeJS.Timeout | undefined;
    const report = createReportReader(reportText);
    /** The program has ended, and what it has printed is on its way. */
    const closeSoon = (): void => {
      clearTimeout(farewell);
      farewell = setTimeout(() => opened.close(), farewellMost);
    };
    const streams = { stdin: request.receives, stderr: request.terminal === null, tty: request.terminal !== null };
    const opened = await openChannels(cluster, {
      path: execPath(cluster.namespace, target, argv, streams),
      what: `run a program in ${target.pod}`,
      async onMessage(number, bytes) {
        if (number === channel.status) {
          status = readStatus(bytes);
          // Channels are copied side by side, so something may still come; then the cluster closes the line.
          return closeSoon();
        }
        const own = number === channel.stderr ? report.take(bytes) : bytes;
        if (own.length > 0) await request.onBytes(own, number === channel.stderr ? 'stderr' : 'stdout');
        if (report.code() === undefined) return;
        hasEnded = true;
        closeSoon();
      },
    });
    line = opened;
    if (size !== null) void opened.send(channel.resize, sizeMessage(size));
    atHand(opened);
    if (isStopping) void end();
    const broken = await opened.closed;
    clearTimeout(farewell);
    const rest = report.rest();
    if (rest.length > 0) await request.onBytes(rest, 'stderr');
    const code = report.code();
    if (code !== undefined) return { kind: 'ended', exitCode: code, signal: null };
    if (status !== undefined) {
      const cannot = whyNotBegun(status);
      if (cannot === undefined) return endOf(status);
      if (cannot.code === notFoundCode && !isLast) return undefined;
      const told = Buffer.from(`${argv[0] ?? ''}: ${cannot.says}\n`);
      await request.onBytes(told, request.terminal === null ? 'stderr' : 'stdout');
      return { kind: 'ended', exitCode: cannot.code, signal: null };
    }
    const why = broken ?? 'the line was closed before its end was told';
    if (isStopping) return { kind: 'no_answer', reason: why, sent: true };
    // The program is not told that nobody listens any more.
    const isEnded = hasMark && (await endedAnew());
    const now = isEnded ? 'it was ended over another one' : 'it may go on there';
    return { kind: 'no_answer', reason: `${why}; ${now}`, sent: true };
  }

  /** Whether it is ended over a new line; one that does not stand soon is not waited for. */
  async function endedAnew(): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), stopMost);
    });
    try {
      return (await Promise.race([runShort(enderOf(mark)), late]))?.status === 'Success';
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
    }
  }

  /** A short program without input, whose output nobody needs. */
  async function runShort(argv: readonly string[]): Promise<Status | undefined> {
    let status: Status | undefined;
    const opened = await openChannels(cluster, {
      path: execPath(cluster.namespace, target, argv, { stdin: false, stderr: true, tty: false }),
      what: `run a program in ${target.pod}`,
      onMessage(number, bytes) {
        if (number !== channel.status) return;
        status = readStatus(bytes);
        opened.close();
      },
    });
    await opened.closed;
    return status;
  }

  const has = async (argv: readonly string[]): Promise<boolean> => (await runShort(argv))?.status === 'Success';

  /** The ways that are tried, one after the other. What is read by one that cannot begin would be lost: then it is asked before. */
  async function waysHere(): Promise<readonly (readonly string[])[]> {
    const [marked = [], plain = [], bare] = ways;
    if (!request.receives) return ways;
    if (request.terminal === null && (await has(['env', 'sh', '-c', ':']))) {
      return [['env', mark, ...reporting(marked.slice(2), reportText)]];
    }
    if (await has(['env', 'true'])) return [marked];
    return bare !== undefined && !(await has(['sh', '-c', ':'])) ? [bare] : [plain];
  }

  async function run(): Promise<SessionEnd> {
    const here = await waysHere();
    for (const [index, way] of here.entries()) {
      if (isStopping) return { kind: 'no_answer', reason: 'it was ended before it had begun', sent: false };
      hasMark = way[1] === mark;
      const ended = await attempt(way, index === here.length - 1);
      if (ended !== undefined) return ended;
    }
    throw new Error('the last way to run a program tells its end');
  }

  /** Ends it by its mark. */
  async function end(): Promise<void> {
    const noShell = 'it cannot be ended from here, because its image has no shell: it may go on there';
    if (!hasMark) return giveUp(noShell);
    try {
      const status = await runShort(enderOf(mark));
      if (status !== undefined && whyNotBegun(status) !== undefined) giveUp(noShell);
    } catch (error) {
      giveUp(`it cannot be ended: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  const ended = Promise.race([run(), givenUp])
    .catch((error: unknown): SessionEnd => {
      if (!(error instanceof JobmanError)) throw error;
      return notOpened(error, isForbidden(error));
    })
    .finally(() => {
      isOver = true;
      atHand(undefined);
      line?.close();
    });

  return {
    ended,
    async write(bytes) {
      const to = await standing;
      for (let at = 0; at < bytes.length && !isOver && !hasEnded; at += messageMost) {
        await to?.send(channel.input, bytes.subarray(at, at + messageMost));
      }
    },
    end() {
      void standing.then((to) => {
        if (to === undefined || isOver || to.end(channel.input)) return;
        giveUp('this cluster cannot be told that the input has ended; Kubernetes 1.30 can');
      });
    },
    resize(next) {
      size = next;
      if (!isOver) void line?.send(channel.resize, sizeMessage(next));
    },
    stop() {
      if (isOver || isStopping) return;
      isStopping = true;
      const timer = setTimeout(() => giveUp('it has not ended although it was killed'), stopMost);
      void ended.finally(() => clearTimeout(timer)).catch(() => undefined);
      if (line !== undefined) void end();
    },
  };
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

/** The fields have no other names in Kubernetes' own TerminalSize. */
export function sizeMessage({ columns, rows }: TerminalSize): Buffer {
  return Buffer.from(JSON.stringify({ Width: columns, Height: rows }));
}

/** A status that cannot be read, or whose values are of other kinds, is told as it came. */
export function readStatus(bytes: Uint8Array): Status {
  const text = Buffer.from(bytes).toString('utf8');
  try {
    const value: unknown = JSON.parse(text);
    if (isStatus(value)) return value;
  } catch {
    // Told as it came, too.
  }
  return { message: text };
}

function isStatus(value: unknown): value is Status {
  const areTexts = (object: unknown, names: readonly string[]): boolean =>
    typeof object === 'object' &&
    object !== null &&
    names.every((name) => ['string', 'undefined'].includes(typeof (object as Record<string, unknown>)[name]));
  if (!areTexts(value, ['status', 'reason', 'message'])) return false;
  const { details = {} } = value as { readonly details?: unknown };
  if (!areTexts(details, [])) return false;
  const { causes = [] } = details as { readonly causes?: unknown };
  return Array.isArray(causes) && causes.every((cause) => areTexts(cause, ['reason', 'message']));
}

function endOf({ status, reason, message, details }: Status): SessionEnd {
  if (status === 'Success') return { kind: 'ended', exitCode: 0, signal: null };
  const cause = details?.causes?.find((one) => one.reason === 'ExitCode');
  const code = Number(cause?.message ?? Number.NaN);
  return reason === 'NonZeroExitCode' && Number.isInteger(code)
    ? { kind: 'ended', exitCode: code, signal: null }
    : { kind: 'no_answer', reason: message ?? 'its end was told without a word', sent: true };
}

/** As a shell says it. */
const notFoundCode = 127;
const notRunnableCode = 126;

/** What the container runtime says of a program that it cannot begin: the words of runc, and of crun. */
function whyNotBegun({ reason, message = '' }: Status): { readonly code: number; readonly says: string } | undefined {
  if (reason !== 'InternalError') return undefined;
  if (/executable file (?:`[^`]*` )?not found|no such file or directory/i.test(message)) {
    return { code: notFoundCode, says: 'the image has no such program' };
  }
  return /permission denied|exec format error/i.test(message)
    ? { code: notRunnableCode, says: 'it is there and cannot be run' }
    : undefined;
}
