// Sessions with a program in a container. `exec` starts a program; `attach` connects to the container's own program,
// whose earlier output is not repeated and whose exit code is in the container's state.

import {
  sessionNotOpened,
  type Program,
  type Session,
  type SessionEnd,
  type TerminalSize,
} from '../../app/worker-access.ts';
import type { ClusterAttachRequest, ClusterExecRequest, ClusterTarget } from '../../app/cluster/cluster.ts';
import { withTimeout } from '../../app/concurrency.ts';
import { JobmanError, messageOf } from '../../app/errors.ts';
import { type Duration, second } from '../../core/model/time.ts';
import { type Channels, type ClusterAccess, openChannels, podPath } from './channels.ts';
import { isForbidden, readExecStatus } from './status.ts';
import { randomBytes } from 'node:crypto';

/** Time to wait for the end of a stopped program: TERM, KILL after three seconds, then the report of its end. */
const stopTimeout: Duration = 8 * second;
const maxMessageBytes = 1 << 16;

/** The input of a program and the size of its terminal. Both may arrive before the connection is open. */
function createInput(terminal: TerminalSize | null) {
  const opening = Promise.withResolvers<Channels | undefined>();
  let size = terminal;
  let isOver = false;
  const sendSize = (to: Channels | undefined, { columns, rows }: TerminalSize): void =>
    void to?.send(channel.resize, Buffer.from(JSON.stringify({ Width: columns, Height: rows })));
  let channels: Channels | undefined;
  return {
    /** Resolves with undefined if the connection never opens. */
    channels: opening.promise,
    open(opened: Channels, isPrinting = false): void {
      channels = opened;
      // A change of the size makes the program draw an earlier prompt again.
      if (size !== null && isPrinting) sendSize(channels, { ...size, columns: size.columns + 1 });
      if (size !== null) sendSize(channels, size);
      opening.resolve(opened);
    },
    close: (): void => {
      isOver = true;
      opening.resolve(undefined);
    },
    write: async (bytes: Uint8Array): Promise<void> => {
      const to = await opening.promise;
      for (let at = 0; at < bytes.length && !isOver; at += maxMessageBytes) {
        await to?.send(channel.input, bytes.subarray(at, at + maxMessageBytes));
      }
    },
    resize: (next: TerminalSize): void => {
      size = next;
      if (!isOver) sendSize(channels, next);
    },
  };
}

function endBeforeOpen(error: unknown): SessionEnd {
  if (!(error instanceof JobmanError)) throw error;
  return sessionNotOpened(error, isForbidden(error));
}

/** Runs a program. Failures before it starts are part of the session's end. */
export function startExec(cluster: ClusterAccess, target: ClusterTarget, request: ClusterExecRequest): Session {
  const marker = `JOBMAN_EXEC=${randomBytes(8).toString('hex')}`;
  const reportText = `${marker}: `;
  let channels: Channels | undefined;
  let isOver = false;
  let isStopping = false;
  let hasMarker = true;
  let isInputEnded = false;
  const input = createInput(request.terminal);
  const abandoned = Promise.withResolvers<SessionEnd>();
  const abandon = (reason: string): void => abandoned.resolve({ kind: 'unreachable', reason, mayHaveRun: true });

  /** False if the protocol of this cluster cannot do that. */
  const endInput = (to: Channels): boolean => (isInputEnded ||= to.end(channel.input));

  function onReport(): void {
    input.close();
    if (channels !== undefined) endInput(channels);
  }

  function onOpen(opened: Channels): void {
    channels = opened;
    input.open(opened);
    if (isStopping) void endByMarker();
  }

  async function run(): Promise<SessionEnd> {
    const canRun = async (argv: readonly string[]): Promise<boolean> =>
      (await runShortProgram(cluster, target, argv))?.status === 'Success';
    const candidates = await chooseCommands(request, marker, reportText, canRun);
    for (const [index, argv] of candidates.entries()) {
      if (isStopping) return { kind: 'unreachable', reason: 'it was stopped before it started', mayHaveRun: false };
      hasMarker = argv[1] === marker;
      const events = { onOpen, onReport };
      const ended = await runExec(cluster, target, request, { argv, reportText }, events);
      if (ended.kind === 'ended') return ended.end;
      if (ended.kind === 'dropped') return endAfterDrop(ended.reason);
      if (ended.code === notFoundExitCode && index < candidates.length - 1) continue;
      const message = Buffer.from(`${argv[0] ?? ''}: ${ended.message}\n`);
      await request.onBytes(message, request.terminal === null ? 'stderr' : 'stdout');
      return { kind: 'ended', exitCode: ended.code, signal: null };
    }
    throw new Error('the last variant of a command always has a result');
  }

  /** The cluster does not notify the program of a broken connection, so a second connection ends the program. */
  async function endAfterDrop(reason: string): Promise<SessionEnd> {
    if (isStopping) return { kind: 'unreachable', reason, mayHaveRun: true };
    const isEnded = hasMarker && (await isEndedOverNewConnection(cluster, target, marker));
    const now = isEnded ? 'a second connection ended the program' : 'the program may still be running';
    return { kind: 'unreachable', reason: `${reason}; ${now}`, mayHaveRun: true };
  }

  async function endByMarker(): Promise<void> {
    const noShell = 'it cannot be stopped, because the image has no shell; the program may still be running';
    if (!hasMarker) return abandon(noShell);
    try {
      const status = await runShortProgram(cluster, target, endCommand(marker));
      if (status !== undefined && startFailure(status) !== undefined) abandon(noShell);
    } catch (error) {
      abandon(`it cannot be stopped: ${messageOf(error)}`);
    }
  }

  const ended = Promise.race([run(), abandoned.promise])
    .catch(endBeforeOpen)
    .finally(() => {
      isOver = true;
      input.close();
      channels?.close();
    });

  return {
    ended,
    write: input.write,
    end() {
      void input.channels.then((to) => {
        if (to === undefined || isOver || endInput(to)) return;
        abandon('this cluster cannot close the input of a program; Kubernetes 1.30 and newer can');
      });
    },
    resize: input.resize,
    stop() {
      if (isOver || isStopping) return;
      isStopping = true;
      const timer = setTimeout(() => abandon('it did not end after a kill'), stopTimeout);
      void ended.finally(() => clearTimeout(timer)).catch(() => undefined);
      if (channels !== undefined) void endByMarker();
    },
  };
}

async function isEndedOverNewConnection(
  cluster: ClusterAccess,
  target: ClusterTarget,
  marker: string,
): Promise<boolean> {
  try {
    const work = runShortProgram(cluster, target, endCommand(marker));
    return (await withTimeout(stopTimeout, work, () => undefined))?.status === 'Success';
  } catch {
    return false;
  }
}

/** Attaches to the container's program. The end is `ended` with 0 whatever the program's exit code is. */
export function startAttach(
  cluster: ClusterAccess,
  { pod, container }: ClusterTarget,
  request: ClusterAttachRequest,
): Session {
  const input = createInput(request.terminal);
  let isStopped = false;
  let channels: Channels | undefined;

  async function run(): Promise<SessionEnd> {
    let hasStatus = false;
    const isTerminal = String(request.terminal !== null);
    const opened = await openChannels(cluster, {
      path: `${podPath(cluster, pod)}/attach?stdin=true&stdout=${isTerminal}&stderr=false&tty=${isTerminal}&container=${encodeURIComponent(container)}`,
      purpose: `attach to ${pod}`,
      async onMessage(number, bytes) {
        if (number !== channel.status) {
          if (bytes.length > 0) await request.onBytes(bytes, 'stdout');
          return;
        }
        hasStatus = true;
        setTimeout(() => opened.close(), second).unref();
      },
    });
    channels = opened;
    if (isStopped) opened.close();
    input.open(opened, true);
    const dropReason = await opened.closed;
    if (hasStatus) return { kind: 'ended', exitCode: 0, signal: null };
    return { kind: 'unreachable', reason: dropReason ?? 'the connection was closed', mayHaveRun: true };
  }

  return {
    ended: run().catch(endBeforeOpen).finally(input.close),
    write: input.write,
    end() {
      void input.channels.then((to) => {
        // Older protocols cannot end the input alone; closing the connection ends it.
        if (to?.end(channel.input) === false && request.terminal === null) to.close();
      });
    },
    resize: input.resize,
    stop() {
      isStopped = true;
      input.close();
      channels?.close();
    },
  };
}

const closeDelay: Duration = 2 * second;

type ExecResult =
  | { readonly kind: 'ended'; readonly end: SessionEnd }
  | { readonly kind: 'not-started'; readonly code: number; readonly message: string }
  | { readonly kind: 'dropped'; readonly reason: string };

interface ExecEvents {
  readonly onOpen: (channels: Channels) => void;
  /** The program has reported its end. More input would only block the connection. */
  readonly onReport: () => void;
}

async function runExec(
  cluster: ClusterAccess,
  target: ClusterTarget,
  request: ClusterExecRequest,
  { argv, reportText }: { readonly argv: readonly string[]; readonly reportText: string },
  { onOpen, onReport }: ExecEvents,
): Promise<ExecResult> {
  let status: ExecStatus | undefined;
  let closeTimer: NodeJS.Timeout | undefined;
  const report = createReportReader(reportText);
  const closeSoon = (): void => {
    clearTimeout(closeTimer);
    closeTimer = setTimeout(() => channels.close(), closeDelay);
  };
  const streams = { stdin: request.hasInput, stderr: request.terminal === null, tty: request.terminal !== null };
  const channels = await openChannels(cluster, {
    path: execPath(cluster, target, argv, streams),
    purpose: `run a program in ${target.pod}`,
    async onMessage(number, bytes) {
      if (number === channel.status) {
        status = readExecStatus(bytes);
        // Channels are copied independently, so more output may follow before the cluster closes the connection.
        return closeSoon();
      }
      const output = number === channel.stderr ? report.take(bytes) : bytes;
      if (output.length > 0) await request.onBytes(output, number === channel.stderr ? 'stderr' : 'stdout');
      if (report.code() === undefined) return;
      onReport();
      closeSoon();
    },
  });
  onOpen(channels);
  const dropReason = await channels.closed;
  clearTimeout(closeTimer);
  const rest = report.rest();
  if (rest.length > 0) await request.onBytes(rest, 'stderr');
  const code = report.code();
  if (code !== undefined) return { kind: 'ended', end: { kind: 'ended', exitCode: code, signal: null } };
  if (status === undefined)
    return { kind: 'dropped', reason: dropReason ?? 'the connection was closed before the program ended' };
  const failure = startFailure(status);
  return failure === undefined ? { kind: 'ended', end: sessionEndOf(status) } : { kind: 'not-started', ...failure };
}

// A cluster cannot end a started program, and a closed connection leaves it running. So the program has a marker in its
// environment, by which a second short program in the container finds and ends it.

/** Ends all programs with the marker: TERM, and KILL three seconds later. It does not have the marker itself. */
const endScript = `for signal in TERM KILL; do
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

function endCommand(marker: string): readonly string[] {
  return ['sh', '-c', endScript, 'sh', marker];
}

/** The commands to try, in order. A failed start would lose the input, so with input `canRun` checks first. */
async function chooseCommands(
  { program, hasInput, terminal }: ClusterExecRequest,
  marker: string,
  reportText: string,
  canRun: (argv: readonly string[]) => Promise<boolean>,
): Promise<readonly (readonly string[])[]> {
  const variants = commandVariants(program, marker);
  if (!hasInput) return variants;
  const [marked = [], plain = [], bare = plain] = variants;
  if (!(await canRun(['env', 'sh', '-c', ':']))) return [bare];
  return [terminal === null ? ['env', marker, ...withExitReport(marked.slice(2), reportText)] : marked];
}

/**
 * With the marker; without `env`; and without a shell, if the line is plain. The first start reports a missing program.
 */
function commandVariants(program: Program, marker: string): readonly (readonly string[])[] {
  const argv = program.kind === 'argv' ? program.argv : ['sh', '-c', program.line];
  const args = program.kind === 'line' ? program.line.trim().split(/\s+/) : [];
  const isPlain = args.length > 0 && args.every((arg) => /^[\w@%+:,./-]+$/.test(arg));
  return [['env', marker, ...argv], argv, ...(isPlain ? [args] : [])];
}

const channel = { input: 0, stdout: 1, stderr: 2, status: 3, resize: 4 } as const;

function execPath(
  cluster: ClusterAccess,
  { pod, container }: ClusterTarget,
  argv: readonly string[],
  streams: Readonly<Record<'stdin' | 'stderr' | 'tty', boolean>>,
): string {
  const query = [
    'stdout=true',
    ...Object.entries(streams).map(([name, value]) => `${name}=${String(value)}`),
    `container=${encodeURIComponent(container)}`,
    ...argv.map((arg) => `command=${encodeURIComponent(arg)}`),
  ];
  return `${podPath(cluster, pod)}/exec?${query.join('&')}`;
}

/** The status of a short program without input; undefined if the connection broke first. Its output is ignored. */
async function runShortProgram(
  cluster: ClusterAccess,
  target: ClusterTarget,
  argv: readonly string[],
): Promise<ExecStatus | undefined> {
  let status: ExecStatus | undefined;
  const opened = await openChannels(cluster, {
    path: execPath(cluster, target, argv, { stdin: false, stderr: true, tty: false }),
    purpose: `run a program in ${target.pod}`,
    onMessage(number, bytes) {
      if (number !== channel.status) return;
      status = readExecStatus(bytes);
      opened.close();
    },
  });
  await opened.closed;
  return status;
}

type ExecStatus = ReturnType<typeof readExecStatus>;

function sessionEndOf({ status, reason, message, details }: ExecStatus): SessionEnd {
  if (status === 'Success') return { kind: 'ended', exitCode: 0, signal: null };
  const cause = details?.causes?.find((one) => one.reason === 'ExitCode');
  const code = Number(cause?.message ?? Number.NaN);
  return reason === 'NonZeroExitCode' && Number.isInteger(code)
    ? { kind: 'ended', exitCode: code, signal: null }
    : { kind: 'unreachable', reason: message ?? 'the cluster reported its end without a reason', mayHaveRun: true };
}

const notFoundExitCode = 127;
const notRunnableExitCode = 126;

/** The reason why a program did not start; undefined for a program that did. The patterns match runc and crun. */
function startFailure(status: ExecStatus): { readonly code: number; readonly message: string } | undefined {
  const { reason, message = '' } = status;
  if (reason !== 'InternalError') return undefined;
  if (/executable file (?:`[^`]*` )?not found|no such file or directory/i.test(message)) {
    return { code: notFoundExitCode, message: 'the image has no such program' };
  }
  return /permission denied|exec format error/i.test(message)
    ? { code: notRunnableExitCode, message: 'the image has the program, but it cannot run' }
    : undefined;
}

// The input of a program may block the API server's connection to the node, so that its end is not reported. A shell in
// the container therefore writes the exit code as the last line of stderr, after a random text. Then it reads the input that
// the program left, because the cluster breaks the connection at input that no process reads, and the report could be lost.

/** Script for `sh -c`: `$0` is the text, the arguments are the program. */
const reportScript = 'env "$@"; code=$?; echo "$0$code" >&2; cat >/dev/null 2>&1; exit "$code"';

/** The container needs `sh` and `env`. */
export function withExitReport(argv: readonly string[], text: string): readonly string[] {
  return ['sh', '-c', reportScript, text, ...argv];
}

/** Length of a report after the text: up to three digits (exit codes end at 255) and a line end. */
const maxReportLength = 4;

/** Separates the report from stderr. `text` is the one of `withExitReport`. Holds back bytes that may be a report. */
export function createReportReader(text: string) {
  const marker = Buffer.from(text);
  let heldBack: Buffer = Buffer.alloc(0);
  let code: number | undefined;
  return {
    take(bytes: Uint8Array): Buffer {
      const all = Buffer.concat([heldBack, bytes]);
      let at = all.indexOf(marker);
      for (; at >= 0; at = all.indexOf(marker, at + 1)) {
        const following = all.toString('latin1', at + marker.length, at + marker.length + maxReportLength);
        const [report, digits] = /^(\d{1,3})\n/.exec(following) ?? [];
        if (report !== undefined) {
          code = Number(digits);
          heldBack = Buffer.alloc(0);
          return Buffer.concat([all.subarray(0, at), all.subarray(at + marker.length + report.length)]);
        }
        // The program can read the text in its environment and print it, with anything after it.
        if (following.length < maxReportLength && /^\d*$/.test(following)) break;
      }
      let from = at;
      for (let length = Math.min(marker.length - 1, all.length); from < 0 && length > 0; length -= 1) {
        if (marker.subarray(0, length).equals(all.subarray(all.length - length))) from = all.length - length;
      }
      heldBack = from < 0 ? Buffer.alloc(0) : all.subarray(from);
      return from < 0 ? all : all.subarray(0, from);
    },
    rest() {
      const bytes = heldBack;
      heldBack = Buffer.alloc(0);
      return bytes;
    },
    code: () => code,
  };
}
