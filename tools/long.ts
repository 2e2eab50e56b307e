/**
 * `npm run long [-- NAME...]`: proofs that take minutes, for the night and before a release. Finished parts are
 * recorded: an interrupted proof continues while the tree is the same, unless `--restart` is given. Prints a line for
 * each proof, for bench/RESULTS.md. Exits with 1 when a proof fails. For the options of `chaos` see chaos/main.ts.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { findMutant, maxSeeds } from '../sim/mutants.ts';
import { mutants } from '../sim/mutants/load.ts';
import { gcsfuseBinary, gcsfuseModule } from '../test/support/gcsfuse.ts';
import { faultDefaults, faultKinds } from './chaos/plan.ts';

const root = join(import.meta.dirname, '..');
const progressFile = join(root, 'node_modules/.cache/long.json');
const kills = 1_000;
const killsPerPart = 100;
const faults = 200;
const faultsPerPart = 25;
/** A longer part counts as hung: each takes about a minute on an idle machine. */
const maxPartMs = 15 * 60_000;
/** The full chaos test lasts as long as 200 kills of the controller, and until every job has ended. */
const maxChaosMs = 60 * 60_000;
const seeds = 5_000;
const seedsPerPart = 250;
const billSeeds = 1_000;
const billSeedsPerPart = 250;
/** Two days each, with 8 users and 30 TPUs. */
const labRuns = 20;

const { values, positionals } = parseArgs({
  options: {
    restart: { type: 'boolean', default: false },
    only: { type: 'string' },
    jobs: { type: 'string' },
    times: { type: 'string' },
    seed: { type: 'string' },
  },
  allowPositionals: true,
});
const { restart, ...chaosOptions } = values;
const chaosArgs = Object.entries(chaosOptions).map(([name, value]) => `--${name}=${String(value)}`);

interface Part {
  readonly name: string;
  /** Returns the result in a phrase; throws when the proof fails. */
  readonly prove: () => Promise<string>;
}

const proofs: Readonly<Record<string, readonly Part[]>> = {
  mirror: ['on this machine', 'over SSH'].flatMap((way) =>
    Array.from({ length: kills / killsPerPart }, (_, index) => ({
      name: `${way}, from kill ${index * killsPerPart + 1}`,
      prove: () => mirrorKills(way, index + 1),
    })),
  ),
  mutants: mutants.map(({ name }) => ({ name, prove: () => testMutant(name) })),
  seeds: Array.from({ length: seeds / seedsPerPart }, (_, index) => ({
    name: `from ${index * seedsPerPart + 1}`,
    prove: () => simulateSeeds(index * seedsPerPart + 1),
  })),
  lab: Array.from({ length: labRuns }, (_, index) => ({
    name: `life ${index + 1}`,
    prove: () => simulateLab(index + 1),
  })),
  ledger: Array.from({ length: billSeeds / billSeedsPerPart }, (_, index) => ({
    name: `from ${index * billSeedsPerPart + 1}`,
    prove: () => compareBills(index * billSeedsPerPart + 1),
  })),
  chaos: chaosParts(),
  servers: Array.from({ length: faults / faultsPerPart }, (_, index) => ({
    name: `from fault ${index * faultsPerPart + 1}`,
    prove: () => takeOver(index + 1),
  })),
  gcsfuse: [{ name: 'on loopback', prove: testGcsfuse }],
  digits: [
    { name: 'preempted twice, one host killed', prove: () => testDigits('digits are learned') },
    { name: 'the same in containers', prove: () => testDigits('in containers') },
  ],
};

const claims: Readonly<Record<string, string>> = {
  ledger: `in ${billSeeds} random worlds the usage ledger equals the TPU emulator's bill to the cent`,
  mirror: `the log mirror is killed ${kills} times at random bytes on this machine, and as often over SSH, and has every byte once`,
  mutants: `each of ${mutants.length} mutants is found by an invariant within ${maxSeeds} seeds`,
  seeds: `${seeds} random runs of the simulator violate no invariant`,
  lab: `${labRuns} random runs of a lab, two days each, violate no invariant`,
  gcsfuse:
    'the real gcsfuse mounts a bucket of a storage server on loopback with its caches, and again after it was killed',
  digits:
    'jax on four workers, with two preemptions and a killed host, reaches the accuracy of an undisturbed run, in containers too',
  servers: `of two servers on one PostgreSQL, one is killed, stopped or cut off ${faults} times; the other takes over within 10 s, and nothing is lost or happens twice`,
  chaos: `with real processes nothing is lost and nothing happens twice, ${
    chaosArgs.length > 0
      ? `in this run: ${chaosArgs.join(' ')}`
      : 'with each kind of fault alone, and with all together'
  }`,
};

const unknown = positionals.filter((name) => !(name in proofs));
if (unknown.length > 0) {
  console.error(`There is no proof ${unknown.join(', ')}. There are: ${Object.keys(proofs).join(', ')}.`);
  process.exit(2);
}

/** Runs the parts that are not done; returns the text for the table. */
async function prove(name: string, parts: readonly Part[]): Promise<string> {
  const began = performance.now();
  const failed: string[] = [];
  for (const [index, part] of parts.entries()) {
    const key = `${name}/${part.name}`;
    const position = `${index + 1} of ${parts.length}`;
    if (done[key] !== undefined) continue;
    try {
      done[key] = await part.prove();
      writeProgress();
      console.log(`${key} (${position}): ${done[key]}`);
    } catch (error) {
      failed.push(part.name);
      console.log(`${key} (${position}): NOT PROVEN: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  const took = `${Math.round((performance.now() - began) / 1_000)} s`;
  if (failed.length === 0) return `${claims[name]} (${took})`;
  process.exitCode = 1;
  return `NOT PROVEN: ${failed.join(', ')}`;
}

async function mirrorKills(way: string, seed: number): Promise<string> {
  const { code, output } = await run(
    ['--test', '--test-name-pattern', way, join(root, 'test/real/launch-kills.test.ts')],
    { JOBMAN_KILLS: String(killsPerPart), JOBMAN_KILLS_SEED: String(seed) },
  );
  if (code !== 0) throw new Error(output.slice(-2_000));
  // A test without its requirements skips itself, which is not proof.
  if (!/pass [1-9]/.test(output) || /skipped [1-9]/.test(output)) throw new Error(`it did not run:\n${output}`);
  return `${killsPerPart} kills`;
}

async function takeOver(seed: number): Promise<string> {
  // The other tests of that file have no faults, and one of them needs libfaketime.
  const { code, output } = await run(
    ['--test', '--test-name-pattern', 'kills, stops and cuts', join(root, 'test/real/two-servers.test.ts')],
    { JOBMAN_KILLS: String(faultsPerPart), JOBMAN_KILLS_SEED: String(seed) },
  );
  if (code !== 0 || !/pass [1-9]/.test(output) || /skipped [1-9]/.test(output)) throw new Error(output.slice(-2_000));
  return /\d+ faults, .*/.exec(output)?.[0] ?? `${faultsPerPart} faults`;
}

async function testMutant(mutant: string): Promise<string> {
  const found = await findMutant(mutant, maxSeeds);
  if (found === undefined) throw new Error(`no invariant noticed it in ${maxSeeds} seeds`);
  return `invariant ${found.invariant} in seed ${found.seed}`;
}

async function simulateLab(seed: number): Promise<string> {
  const { code, output } = await run([join(root, 'sim/main.ts'), '--lab', '--seed', String(seed)], {});
  if (code !== 0) throw new Error(output.slice(-2_000));
  return output.trim().split('\n')[0] ?? '';
}

async function simulateSeeds(first: number): Promise<string> {
  const args = [join(root, 'sim/main.ts'), '--seed', String(first), '--seeds', String(seedsPerPart)];
  const { code, output } = await run(args, {});
  if (code !== 0) throw new Error(output.slice(-2_000));
  return output.trim().split('\n').at(-1) ?? '';
}

/** Each kind of fault alone with six jobs, and all of them with twenty; or the arguments of the user. */
function chaosParts(): readonly Part[] {
  if (chaosArgs.length > 0) return [{ name: chaosArgs.join(' '), prove: () => runChaos(chaosArgs) }];
  return [
    ...faultKinds.map((kind) => ({
      name: faultDefaults[kind].description,
      prove: () => runChaos([`--only=${kind}`, '--jobs=6']),
    })),
    { name: 'all at once', prove: () => runChaos([]) },
  ];
}

async function runChaos(options: readonly string[]): Promise<string> {
  const args = [join(root, 'tools/chaos/main.ts'), ...options];
  // Tests the bundle, as users run it.
  const { code, output } = await run(args, { JOBMAN_TEST_BUNDLE: '1' }, { timeoutMs: maxChaosMs, isEchoed: true });
  if (code !== 0) throw new Error(output.slice(-4_000));
  return output.trim().split('\n').at(-1) ?? '';
}

/** Builds a missing gcsfuse, because Debian has no package. Takes Go, the internet, and minutes. */
async function testGcsfuse(): Promise<string> {
  if (!existsSync(gcsfuseBinary)) {
    const env = { ...process.env, GOBIN: dirname(gcsfuseBinary) };
    const built = spawnSync('go', ['install', gcsfuseModule], { env, encoding: 'utf8', timeout: maxPartMs });
    if (built.status !== 0) throw new Error(`go install ${gcsfuseModule}: ${built.error?.message ?? built.stderr}`);
  }
  const { code, output } = await run(['--test', join(root, 'test/real/gcsfuse.test.ts')], {
    JOBMAN_REQUIRE_GCSFUSE: '1',
  });
  if (code !== 0 || !/pass [1-9]/.test(output)) throw new Error(output.slice(-2_000));
  return gcsfuseModule;
}

async function compareBills(first: number): Promise<string> {
  const seeds = `${first},${billSeedsPerPart}`;
  const { code, output } = await run(['--test', join(root, 'test/long/bill.test.ts')], { JOBMAN_BILL_SEEDS: seeds });
  if (code !== 0 || !/pass [1-9]/.test(output)) throw new Error(output.slice(-2_000));
  return /\{"billedUsd".*\}/.exec(output)?.[0] ?? 'to the cent';
}

/** jax is installed four times, five times over, or its image is pulled as often, on this machine's processors. */
const maxDigitsMs = 45 * 60_000;

async function testDigits(pattern: string): Promise<string> {
  const { code, output } = await run(
    ['--test', '--test-name-pattern', pattern, join(root, 'test/long/jax-digits.test.ts')],
    // Without Docker the test skips itself, which is not proof.
    { JOBMAN_REQUIRE_REAL: '1' },
    { timeoutMs: maxDigitsMs },
  );
  if (code !== 0 || !/pass [1-9]/.test(output)) throw new Error(output.slice(-2_000));
  return /accuracy [\d.]+/.exec(output)?.[0] ?? 'the accuracy of an undisturbed run';
}

function run(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  // `isEchoed`: print the output while the program runs.
  { timeoutMs = maxPartMs, isEchoed = false } = {},
): Promise<{ readonly code: number; readonly output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, {
      cwd: root,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: timeoutMs,
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
        if (isEchoed) process.stderr.write(text);
      });
    }
    child.on('error', reject);
    child.on('close', (code) => resolve({ code: code ?? 1, output }));
  });
}

/** The commit, with `-dirty` for changed files. A proof holds for one tree only. */
function treeName(): string {
  const { stdout } = spawnSync('git', ['describe', '--always', '--dirty', '--exclude=*'], {
    cwd: root,
    encoding: 'utf8',
  });
  return stdout.trim() || 'unknown';
}

function readProgress(): Record<string, string> {
  try {
    const progress = JSON.parse(readFileSync(progressFile, 'utf8')) as { tree: string; done: Record<string, string> };
    return progress.tree === tree ? progress.done : {};
  } catch {
    return {};
  }
}

function writeProgress(): void {
  mkdirSync(dirname(progressFile), { recursive: true });
  writeFileSync(progressFile, JSON.stringify({ tree, done }, null, 2));
}

// Last in this file, because the top-level await runs before any later definition.
const tree = treeName();
const done = restart ? {} : readProgress();
const lines: string[] = [];
for (const [name, parts] of Object.entries(proofs)) {
  if (positionals.length > 0 && !positionals.includes(name)) continue;
  lines.push(`| ${name} | ${await prove(name, parts)} | ${tree} | ${new Date().toISOString().slice(0, 10)} |`);
}
console.log('\n| proof | what is proven | tree | date |\n| --- | --- | --- | --- |');
for (const line of lines) console.log(line);
