import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { dutyCycleRequest, frame, parseDutyCycle, parseTpuInfo } from '../../src/remote/libtpu.ts';
import { runLocalScript } from '../../src/remote/transport.ts';
import { figuresScript, parseFigures } from '../../src/remote/worker-figures.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openWorld } from '../support/world.ts';

const output = (changes: { readonly busy?: number; readonly end?: string } = {}): string => `
run 000042/3 running 77
run 000042/4 exited
counters
100.00 50.00
cpu  1000 0 500 8000 100 0 0 0 0 0
net lo 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0
net eth0 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0
net docker0 7 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0
session 77 10 100
counters
100.50 50.00
cpu  ${1000 + (changes.busy ?? 30)} 0 500 8060 110 0 0 0 0 0
net lo 5005 1 0 0 0 0 0 0 5005 1 0 0 0 0 0 0
net eth0 2000 1 0 0 0 0 0 0 2500 1 0 0 0 0 0 0
net docker0 9007 1 0 0 0 0 0 0 9007 1 0 0 0 0 0 0
session 77 20 200
memory
MemTotal:       1000 kB
MemAvailable:    250 kB
disk
/dev/a b     1000    600    200      75% /
page
16384
${changes.end ?? 'end'}
`;

suite('the figures of a worker', () => {
  test('are calculated from two readings of its counters', () => {
    const figures = parseFigures(output());
    assert.deepEqual(figures?.get('000042/3'), {
      program: 'running',
      // 30 of 100 ticks; a wait for the disk is idle time.
      cpuPercent: 30,
      memoryUsedBytes: 750 * 1024,
      memoryTotalBytes: 1000 * 1024,
      diskUsedBytes: 600 * 1024,
      diskTotalBytes: 800 * 1024,
      // In half a second, on the interfaces that leave the machine.
      receivedBytesPerSecond: 2000,
      sentBytesPerSecond: 1000,
      dutyPercent: null,
      programCpuPercent: 10,
      programMemoryBytes: 200 * 16384,
    });
    assert.deepEqual(
      [
        figures?.get('000042/4')?.program,
        figures?.get('000042/4')?.programCpuPercent,
        figures?.get('000042/4')?.cpuPercent,
      ],
      ['exited', null, 30],
    );
  });

  test('are never negative, infinite or invented', () => {
    // Counters of a container may be set back.
    assert.equal(parseFigures(output({ busy: -900 }))?.get('000042/3')?.cpuPercent, null);
    assert.equal(parseFigures(output({ end: '' })), undefined, 'An output that was cut says nothing.');
    assert.equal(parseFigures('end\n'), undefined);
  });

  for (const shell of [
    ['dash', '-s'],
    ['bash', '-s'],
    ['busybox', 'sh', '-s'],
  ]) {
    test(`are plausible on this machine, with ${shell[0]}`, async (t) => {
      if (!requireReal(t, shell[0] ?? '', findProgram(shell[0] ?? ''))) return;
      const { folder } = openWorld(t);
      mkdirSync(join(folder, 'attempt_1'));
      writeFileSync(join(folder, 'attempt_1', 'exit'), '0 1\n');
      const run = { key: '000001/0', folder: join(folder, 'attempt_1') };
      const figures = (await measure(figuresScript([run, { ...run, key: '000002/0', folder: '/nowhere' }]), {
        shell,
      }))!;
      const machine = figures.get('000001/0');
      assert.equal(machine?.program, 'exited');
      assert.equal(figures.get('000002/0')?.program, 'absent');
      const { cpuPercent, memoryUsedBytes, memoryTotalBytes, diskUsedBytes, diskTotalBytes } = machine;
      assert.ok(cpuPercent !== null && cpuPercent >= 0 && cpuPercent <= 100);
      assert.ok(memoryUsedBytes !== null && memoryTotalBytes !== null && memoryUsedBytes < memoryTotalBytes);
      assert.ok(diskUsedBytes !== null && diskTotalBytes !== null && diskUsedBytes <= diskTotalBytes);
      assert.ok(machine.receivedBytesPerSecond !== null && machine.receivedBytesPerSecond >= 0);
    });
  }
});

async function measure(script: string, options: { readonly shell?: readonly string[]; readonly path?: string } = {}) {
  const env = { ...process.env, ...(options.path === undefined ? {} : { PATH: options.path }) };
  const request = { script, timeoutMs: 60_000, maxOutputBytes: 100_000 };
  const { shell } = options;
  const result = await runLocalScript(request, { env, cwd: '/', ...(shell === undefined ? {} : { shell }) });
  assert.equal(result.kind, 'ended');
  const text = Buffer.from(result.stdout).toString();
  assert.equal(Buffer.from(result.stderr).toString(), '', text);
  return parseFigures(text);
}

/** A `MetricResponse` with one gauge for each chip, after tpu_metric_service.proto. */
function metricResponse(percents: readonly number[]): Buffer {
  const field = (number: number, bytes: Uint8Array): Buffer =>
    Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
  const metrics = percents.map((percent, chip) => {
    const value = Buffer.alloc(9);
    value[0] = (1 << 3) | 1;
    value.writeDoubleLE(percent, 1);
    const attribute = field(
      1,
      Buffer.concat([field(1, Buffer.from('device-id')), field(2, Buffer.from([3 << 3, chip]))]),
    );
    return field(3, Buffer.concat([attribute, field(3, value)]));
  });
  return field(1, Buffer.concat([field(1, Buffer.from('tpu.runtime')), ...metrics]));
}

suite('the duty cycle of the chips', () => {
  test('is the mean of the gauges in the answer of libtpu', () => {
    assert.equal(parseDutyCycle(Buffer.from(frame(metricResponse([90, 95])))), 92.5);
    assert.equal(parseDutyCycle(Buffer.from(frame(metricResponse([])))), null);
    // An int gauge of 40, as older versions may send.
    const gauge = Buffer.from([0x0a, 6, 0x1a, 4, 0x1a, 2, 0x10, 40]);
    assert.equal(parseDutyCycle(Buffer.from(frame(gauge))), 40);
  });

  test('is not known after an answer that is not a valid one', () => {
    const answer = Buffer.from(frame(metricResponse([90])));
    for (let length = 0; length < answer.length; length += 1)
      assert.equal(parseDutyCycle(answer.subarray(0, length)), null, `${length} bytes`);
    assert.equal(parseDutyCycle(Buffer.from('HTTP/1.1 400 Bad Request\r\n')), null);
    assert.equal(parseDutyCycle(Buffer.alloc(1_000, 0xff)), null);
    for (const wrong of [Number.NaN, Number.POSITIVE_INFINITY, -1, 1e300])
      assert.equal(parseDutyCycle(Buffer.from(frame(metricResponse([wrong])))), null);
  });

  test('is read from the table of tpu-info, and not from the next table', () => {
    // The output of tpu-info 0.14.2, after the end of a warning.
    const printed = [
      '│ (version missing) and Python 3.11.                                           │',
      'TPU Runtime Utilization                      ',
      '                                             ',
      '| Chip | HBM Usage (GiB)       | Duty cycle |',
      '|------|-----------------------|------------|',
      '| 0    | 18.63 GiB / 31.75 GiB | 93.41%     |',
      '| 1    | 18.63 GiB / 31.75 GiB | 0.00%      |',
      '                                             ',
      'TensorCore Utilization            ',
      '| Core ID | TensorCore Utilization |',
      '| 0       | 13.60%                 |',
    ];
    assert.equal(parseTpuInfo(printed), 46.7);
    assert.equal(parseTpuInfo(printed.map((line) => line.replace(/[\d.]+%/, 'N/A'))), null);
    // An older version.
    const table = [
      'TPU Chips',
      '│ /dev/vfio/0 │ TPU v6e chip │ 1 │ 1052 │',
      'TPU Runtime Utilization',
      '┃ Chip   ┃ HBM usage                ┃ Duty cycle ┃',
      '│ 8      │ 18.45 GiB / 31.25 GiB    │    100.00% │',
      '│ 9      │ 10.40 GiB / 31.25 GiB    │     50.00% │',
      '└────────┴──────────────────────────┴────────────┘',
      'TensorCore Utilization',
      '│ 0       │                  13.60%│',
    ];
    assert.equal(parseTpuInfo(table), 75);
    assert.equal(parseTpuInfo(table.slice(7)), null);
    assert.equal(parseTpuInfo(['│ 8 │ N/A │ N/A │', 'Duty cycle']), null);
  });

  test('is requested from the port of libtpu with what is on the host', async (t) => {
    if (!requireReal(t, 'curl', findProgram('curl'))) return;
    const received: Buffer[] = [];
    const port = await startMetricServer(t, received);
    const figures = await measure(figuresScript([{ key: '000001/0', folder: '/nowhere' }], port));
    assert.equal(figures?.get('000001/0')?.dutyPercent, 42);
    assert.deepEqual(Buffer.concat(received), Buffer.from(dutyCycleRequest));
    assert.equal(dutyCycleRequest.length, 5 + 2 + 'tpu.runtime.tensorcore.dutycycle.percent'.length);
  });

  test('is that of tpu-info if curl cannot ask, and unknown if tpu-info fails', async (t) => {
    const { folder } = openWorld(t);
    const port = await startMetricServer(t, []);
    const write = (name: string, script: string): void => {
      writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`);
      chmodSync(join(folder, name), 0o755);
    };
    write('curl', 'cat >/dev/null; exit 2');
    write('tpu-info', "printf 'Duty cycle\\n 0 1 GiB / 2 GiB 33.00%%\\n'");
    const path = `${folder}:${process.env['PATH']}`;
    const dutyOf = async () =>
      (await measure(figuresScript([{ key: '000001/0', folder: '/nowhere' }], port), { path }))?.get('000001/0')
        ?.dutyPercent;
    assert.equal(await dutyOf(), 33);
    write('tpu-info', 'echo broken >&2; exit 1');
    assert.equal(await dutyOf(), null);
  });
});

/** Answers as libtpu does. Returns its port. */
async function startMetricServer(t: TestContext, received: Buffer[]): Promise<number> {
  const server = createServer((request, response) => {
    request.on('data', (chunk: Buffer) => received.push(chunk));
    request.on('end', () => {
      response.writeHead(200, { 'content-type': 'application/grpc' });
      response.write(frame(metricResponse([40, 44])));
      response.addTrailers({ 'grpc-status': '0' });
      response.end();
    });
  });
  t.after(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}
