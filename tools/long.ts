/**
 * `npm run long [-- NAME...]`: proofs that take minutes, for before a release and for the night. Each is made of parts;
 * what is done is noted, so that a proof that was cut off goes on where it was, as long as the tree is the same. `--anew`
 * forgets it. At the end stands one line for each, for bench/RESULTS.md. Exits with 1 when something was not proven.
 *
 * `npm run long -- storm [--only KIND,...] [--jobs N] [--times N] [--seed N]` plays storms of another size, or of one kind;
 * see storm/main.ts.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { find, seedsMost } from '../sim/mutants.ts';
import { mutants } from '../sim/mutants/load.ts';
import { builtGcsfuse, gcsfuseModule } from '../test/support/gcsfuse.ts';
import { dealt, faultKinds } from './storm/plan.ts';

const root = join(import.meta.dirname, '..');
const progressFile = join(root, 'node_modules/.cache/long.json');
const kills = 1_000;
const killsAtOnce = 100;
/** A part that takes longer than this hangs: each is made to take a minute or less where nothing else runs. */
const partMostMs = 15 * 60_000;
/** A storm of everything lasts as long as 200 kills of the controller do, and until every job has come to its end. */
const stormMostMs = 60 * 60_000;
const seeds = 5_000;
const seedsAtOnce = 250;
/** Two days each, of 8 people with 30 TPUs. */
const labLives = 20;

const { values, positionals } = parseArgs({
  options: {
    anew: { type: 'boolean', default: false },
    only: { type: 'string' },
    jobs: { type: 'string' },
    times: { type: 'string' },
    seed: { type: 'string' },
  },
  allowPositionals: true,
});
const { anew, ...stormOptions } = values;
const stormWords = Object.entries(stormOptions).map(([name, value]) => `--${name}=${String(value)}`);

interface Part {
  readonly name: string;
  /** What came of it, in one phrase; throws when it does not hold. */
  readonly prove: () => Promise<string>;
}

const proofs: Readonly<Record<string, readonly Part[]>> = {
  mirror: ['on this machine', 'over SSH'].flatMap((way) =>
    Array.from({ length: kills / killsAtOnce }, (_, index) => ({
      name: `${way}, from kill ${index * killsAtOnce + 1}`,
      prove: () => mirrorKills(way, index + 1),
    })),
  ),
  mutants: mutants.map(({ name }) => ({ name, prove: () => mutantIsFound(name) })),
  seeds: Array.from({ length: seeds / seedsAtOnce }, (_, index) => ({
    name: `from ${index * seedsAtOnce + 1}`,
    prove: () => playSeeds(index * seedsAtOnce + 1),
  })),
  lab: Array.from({ length: labLives }, (_, index) => ({
    name: `life ${index + 1}`,
    prove: () => playLab(index + 1),
  })),
  storm: stormParts(),
  gcsfuse: [{ name: 'on loopback', prove: mountForReal }],
  digits: [
    { name: 'taken twice and robbed once', prove: () => digitsForReal('digits are learned') },
    { name: 'the same in containers', prove: () => digitsForReal('in containers') },
  ],
};

/** What each proof says when all of its parts hold. */
const sentences: Readonly<Record<string, string>> = {
  mirror: `the log mirror is killed ${kills} times at any byte on this machine, and as often over SSH, and holds every byte once`,
  mutants: `each of ${mutants.length} mutants is found by a law within ${seedsMost} seeds`,
  seeds: `${seeds} storms of the simulator break no law`,
  lab: `${labLives} lives of a lab, two days each, break no law`,
  gcsfuse:
    'the real gcsfuse mounts a bucket of a storage server on loopback with its caches, and again after it was killed',
  digits:
    'jax on four workers, preempted twice and robbed of one host, reaches the accuracy of an undisturbed run, in containers too',
  storm: `with real processes nothing is lost and nothing happens twice, ${
    stormWords.length > 0
      ? `in this storm: ${stormWords.join(' ')}`
      : 'whatever strikes: each fault alone, and all at once'
  }`,
};

const unknown = positionals.filter((name) => !(name in proofs));
if (unknown.length > 0) {
  console.error(`There is no proof ${unknown.join(', ')}. There are: ${Object.keys(proofs).join(', ')}.`);
  process.exit(2);
}

/** Makes the parts that are not done; answers what to write down. */
async function prove(name: string, parts: readonly Part[]): Promise<string> {
  const began = performance.now();
  const broken: string[] = [];
  for (const [index, part] of parts.entries()) {
    const key = `${name}/${part.name}`;
    const place = `${index + 1} of ${parts.length}`;
    if (done[key] !== undefined) continue;
    try {
      done[key] = await part.prove();
      writeProgress();
      console.log(`${key} (${place}): ${done[key]}`);
    } catch (error) {
      broken.push(part.name);
      console.log(`${key} (${place}): NOT PROVEN: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  const took = `${Math.round((performance.now() - began) / 1_000)} s`;
  if (broken.length === 0) return `${sentences[name]} (${took})`;
  process.exitCode = 1;
  return `NOT PROVEN: ${broken.join(', ')}`;
}

async function mirrorKills(way: string, seed: number): Promise<string> {
  const { code, output } = await run(
    ['--test', '--test-name-pattern', way, join(root, 'test/real/launch-kills.test.ts')],
    { JOBMAN_KILLS: String(killsAtOnce), JOBMAN_KILLS_SEED: String(seed) },
  );
  if (code !== 0) throw new Error(output.slice(-2_000));
  // A test that has what it needs runs; one that has not says so and is no proof.
  if (!/pass [1-9]/.test(output) || /skipped [1-9]/.test(output)) throw new Error(`it did not run:\n${output}`);
  return `${killsAtOnce} kills`;
}

async function mutantIsFound(mutant: string): Promise<string> {
  const found = await find(mutant, seedsMost);
  if (found === undefined) throw new Error(`no law noticed it in ${seedsMost} seeds`);
  return `law ${found.law} in seed ${found.seed}`;
}

async function playLab(seed: number): Promise<string> {
  const { code, output } = await run([join(root, 'sim/main.ts'), '--lab', '--seed', String(seed)], {});
  if (code !== 0) throw new Error(output.slice(-2_000));
  return output.trim().split('\n')[0] ?? '';
}

async function playSeeds(first: number): Promise<string> {
  const words = [join(root, 'sim/main.ts'), '--seed', String(first), '--seeds', String(seedsAtOnce)];
  const { code, output } = await run(words, {});
  if (code !== 0) throw new Error(output.slice(-2_000));
  return output.trim().split('\n').at(-1) ?? '';
}

/** Each kind of fault alone under six jobs, and all of them together under twenty; or the one that was asked for. */
function stormParts(): readonly Part[] {
  if (stormWords.length > 0) return [{ name: stormWords.join(' '), prove: () => playStorm(stormWords) }];
  return [
    ...faultKinds.map((kind) => ({ name: dealt[kind].about, prove: () => playStorm([`--only=${kind}`, '--jobs=6']) })),
    { name: 'all at once', prove: () => playStorm([]) },
  ];
}

async function playStorm(options: readonly string[]): Promise<string> {
  const words = [join(root, 'tools/storm/main.ts'), ...options];
  // What users run, and not the source.
  const { code, output } = await run(words, { JOBMAN_TEST_BUNDLE: '1' }, { mostMs: stormMostMs, isTold: true });
  if (code !== 0) throw new Error(output.slice(-4_000));
  return output.trim().split('\n').at(-1) ?? '';
}

/** Builds gcsfuse where it is not kept yet: Debian has no package of it. That takes Go, the internet, and minutes. */
async function mountForReal(): Promise<string> {
  if (!existsSync(builtGcsfuse)) {
    const env = { ...process.env, GOBIN: dirname(builtGcsfuse) };
    const built = spawnSync('go', ['install', gcsfuseModule], { env, encoding: 'utf8', timeout: partMostMs });
    if (built.status !== 0) throw new Error(`go install ${gcsfuseModule}: ${built.error?.message ?? built.stderr}`);
  }
  const { code, output } = await run(['--test', join(root, 'test/real/gcsfuse.test.ts')], {
    JOBMAN_REQUIRE_GCSFUSE: '1',
  });
  if (code !== 0 || !/pass [1-9]/.test(output)) throw new Error(output.slice(-2_000));
  return gcsfuseModule;
}

/** Four installations of jax, five times, or as many pulls of an image with it, on the processors of this machine. */
const digitsMostMs = 45 * 60_000;

async function digitsForReal(pattern: string): Promise<string> {
  const { code, output } = await run(
    ['--test', '--test-name-pattern', pattern, join(root, 'test/long/jax-digits.test.ts')],
    // A proof that was skipped, for want of Docker, is none.
    { JOBMAN_REQUIRE_REAL: '1' },
    { mostMs: digitsMostMs },
  );
  if (code !== 0 || !/pass [1-9]/.test(output)) throw new Error(output.slice(-2_000));
  return /accuracy [\d.]+/.exec(output)?.[0] ?? 'the accuracy of an undisturbed run';
}

function run(
  words: readonly string[],
  env: Readonly<Record<string, string>>,
  // `isTold`: what it prints is shown at once, to whoever watches.
  { mostMs = partMostMs, isTold = false } = {},
): Promise<{ readonly code: number; readonly output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, words, {
      cwd: root,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: mostMs,
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
        if (isTold) process.stderr.write(text);
      });
    }
    child.on('error', reject);
    child.on('close', (code) => resolve({ code: code ?? 1, output }));
  });
}

/** The commit, marked when the files differ from it. What was proven of one tree says nothing of another. */
function treeName(): string {
  const { stdout } = spawnSync('git', ['describe', '--always', '--dirty', '--exclude=*'], {
    cwd: root,
    encoding: 'utf8',
  });
  return stdout.trim() || 'unknown';
}

function readProgress(): Record<string, string> {
  try {
    const noted = JSON.parse(readFileSync(progressFile, 'utf8')) as { tree: string; done: Record<string, string> };
    return noted.tree === tree ? noted.done : {};
  } catch {
    return {};
  }
}

function writeProgress(): void {
  mkdirSync(dirname(progressFile), { recursive: true });
  writeFileSync(progressFile, JSON.stringify({ tree, done }, null, 2));
}

// Last in this file: it waits, and whatever stood below would not be there yet.
const tree = treeName();
const done = anew ? {} : readProgress();
const lines: string[] = [];
for (const [name, parts] of Object.entries(proofs)) {
  if (positionals.length > 0 && !positionals.includes(name)) continue;
  lines.push(`| ${name} | ${await prove(name, parts)} | ${tree} | ${new Date().toISOString().slice(0, 10)} |`);
}
console.log('\n| proof | what is proven | tree | date |\n| --- | --- | --- | --- |');
for (const line of lines) console.log(line);
