// Worker figures: a script that prints the counters of a machine twice, and the calculation of its figures from them.
// It reads /proc and what is already there to report about TPU chips, and installs nothing.

import type { WorkerFigures } from '../app/worker-figures.ts';
import { dutyCycleRequest, libtpuPort, parseDutyCycle, parseTpuInfo } from './libtpu.ts';
import { prelude } from './run-folder.ts';

/** One attempt on the machine. `folder` is its run folder, quoted for the shell; `key` is `<job id>/<worker>`. */
export interface MeasuredRun {
  readonly key: string;
  readonly folder: string;
}

/** Time between the two readings of the counters. */
const interval = '0.5';

/** Ends within about ten seconds, even if a part of the machine does not answer. Parts that are absent stay empty. */
export function figuresScript(runs: readonly MeasuredRun[], metricsPort = libtpuPort): string {
  return `
${prelude}
limit() {
  if command -v timeout >/dev/null 2>&1; then timeout "$@"; else shift; "$@"; fi
}
# A living program leads a session.
leaders=
state_of() {
  if [ -e "$2/exit" ] || [ -e "$2/never" ]; then echo "run $1 exited"
  elif is_alive "$2"; then echo "run $1 running $pid"; leaders="$leaders $pid"
  else echo "run $1 absent"
  fi
}
${runs.map(({ key, folder }) => `state_of ${key} ${folder}`).join('\n')}
counters() {
  echo counters
  cat /proc/uptime
  head -n 1 /proc/stat
  sed -n 's/^ *\\([^ :]*\\): *\\(.*\\)/net \\1 \\2/p' /proc/net/dev
  [ -z "$leaders" ] || cat /proc/[0-9]*/stat 2>/dev/null | awk -v leaders="$leaders " '
    # proc_pid_stat(5) from the third field on, because the name before it may contain anything.
    { sub(/^.*\\) /, "") }
    index(leaders, " " $4 " ") { ticks[$4] += $12 + $13; pages[$4] += $22 }
    END { for (one in ticks) print "session", one, ticks[one], pages[one] }'
}
counters
# Programs for these metrics wait for a server that does not run. Check its port first; 0A is the state LISTEN.
if grep -qi ':${metricsPort.toString(16).padStart(4, '0')} [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6 2>/dev/null; then
  duty=$(printf '${octal(dutyCycleRequest)}' | curl --silent --noproxy '*' --max-time 2 --http2-prior-knowledge \\
    -H 'content-type: application/grpc' -H 'te: trailers' --data-binary @- \\
    http://127.0.0.1:${metricsPort}/tpu.monitoring.runtime.RuntimeMetricService/GetRuntimeMetric 2>/dev/null |
    head -c 65536 | base64)
  if [ -n "$duty" ]; then
    echo libtpu
    echo "$duty"
  else
    PATH=$PATH:$HOME/.local/bin
    command -v tpu-info >/dev/null 2>&1 && { echo tpu-info; limit 4 tpu-info </dev/null 2>/dev/null | head -c 65536; echo; }
  fi
fi
nap ${interval}
counters
echo memory
grep -E '^(MemTotal|MemAvailable):' /proc/meminfo
echo disk
limit 2 df -Pk / 2>/dev/null | tail -n 1
echo page
getconf PAGESIZE 2>/dev/null
echo end
`;
}

function octal(bytes: Uint8Array): string {
  return [...bytes].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('');
}

/** By the key of the run. Undefined if the output is incomplete. */
export function parseFigures(output: string): ReadonlyMap<string, WorkerFigures> | undefined {
  const lines = output.split('\n');
  if (!lines.includes('end')) return undefined;
  const [before, after] = sectionsOf(lines, 'counters').map(readCounters);
  if (before === undefined || after === undefined) return undefined;
  const seconds = after.uptime - before.uptime;
  const total = after.totalTicks - before.totalTicks;
  const share = (ticks: number): number | null => (total > 0 ? percent(ticks / total) : null);
  const rate = (bytes: number): number | null => (seconds > 0 ? Math.max(0, Math.round(bytes / seconds)) : null);
  const memory = new Map(
    sectionOf(lines, 'memory').map((line) => [/^\w+/.exec(line)?.[0] ?? '', 1024 * Number(/\d+/.exec(line)?.[0])]),
  );
  const memoryTotal = memory.get('MemTotal') ?? null;
  const memoryFree = memory.get('MemAvailable') ?? null;
  // The name of a file system may contain spaces, so the sizes are read from the end.
  const disk = /(\d+) +(\d+) +(\d+) +\d+% \//.exec(sectionOf(lines, 'disk').join('\n'));
  const pageSize = Number(sectionOf(lines, 'page')[0] ?? defaultPageSize);
  const machine = {
    cpuPercent: share(after.busyTicks - before.busyTicks),
    memoryUsedBytes: memoryTotal === null || memoryFree === null ? null : memoryTotal - memoryFree,
    memoryTotalBytes: memoryTotal,
    diskUsedBytes: disk === null ? null : 1024 * Number(disk[2]),
    // Without the blocks that only root may use, so that a full disk is at 100 %.
    diskTotalBytes: disk === null ? null : 1024 * (Number(disk[2]) + Number(disk[3])),
    receivedBytesPerSecond: rate(after.received - before.received),
    sentBytesPerSecond: rate(after.sent - before.sent),
    dutyPercent:
      parseDutyCycle(Buffer.from(sectionOf(lines, 'libtpu').join(''), 'base64')) ??
      parseTpuInfo(sectionOf(lines, 'tpu-info')),
  };
  return new Map(
    lines.flatMap((line): readonly (readonly [string, WorkerFigures])[] => {
      const [, key = '', program, leader = ''] = /^run (\S+) (running|exited|absent) ?(\d*)$/.exec(line) ?? [];
      if (program === undefined) return [];
      const [then, now] = [before.sessions.get(leader), after.sessions.get(leader)];
      return [
        [
          key,
          {
            program: program as WorkerFigures['program'],
            ...machine,
            // A process that has ended meanwhile takes its ticks with it.
            programCpuPercent:
              then === undefined || now === undefined ? null : share(Math.max(0, now.ticks - then.ticks)),
            programMemoryBytes: now === undefined ? null : now.pages * (pageSize > 0 ? pageSize : defaultPageSize),
          },
        ],
      ];
    }),
  );
}

const defaultPageSize = 4096;

const sectionNames = new Set(['counters', 'libtpu', 'tpu-info', 'memory', 'disk', 'page', 'end']);

/** The lines below each heading of that name. */
function sectionsOf(lines: readonly string[], name: string): readonly (readonly string[])[] {
  return lines.flatMap((line, at) => {
    if (line !== name) return [];
    const length = lines.slice(at + 1).findIndex((one) => sectionNames.has(one));
    return [lines.slice(at + 1, length < 0 ? undefined : at + 1 + length)];
  });
}

function sectionOf(lines: readonly string[], name: string): readonly string[] {
  return sectionsOf(lines, name)[0] ?? [];
}

interface Counters {
  /** In seconds. */
  readonly uptime: number;
  readonly totalTicks: number;
  readonly busyTicks: number;
  readonly received: number;
  readonly sent: number;
  readonly sessions: ReadonlyMap<string, { readonly ticks: number; readonly pages: number }>;
}

/** Their traffic is counted again on the interface that leaves the machine. */
const innerInterfaces = /^(lo|docker\d*|veth.*|br-.*|virbr\d*)$/;

function readCounters(lines: readonly string[]): Counters {
  const fields = lines.map((line) => line.trim().split(/\s+/));
  // proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; the times of guests are part of the first two.
  const cpu = (fields.find(([name]) => name === 'cpu') ?? []).slice(1, 9).map(Number);
  const totalTicks = cpu.reduce((sum, ticks) => sum + ticks, 0);
  const interfaces = fields.filter(([kind, name = '']) => kind === 'net' && !innerInterfaces.test(name));
  const sumOf = (index: number): number => interfaces.reduce((sum, one) => sum + Number(one[index] ?? 0), 0);
  return {
    uptime: Number(fields[0]?.[0]),
    totalTicks,
    busyTicks: totalTicks - (cpu[3] ?? 0) - (cpu[4] ?? 0),
    received: sumOf(2),
    sent: sumOf(10),
    sessions: new Map(
      fields
        .filter(([kind]) => kind === 'session')
        .map(([, leader = '', ticks, pages]) => [leader, { ticks: Number(ticks), pages: Number(pages) }]),
    ),
  };
}

function percent(share: number): number | null {
  return Number.isFinite(share) ? Math.round(1_000 * Math.min(1, Math.max(0, share))) / 10 : null;
}
