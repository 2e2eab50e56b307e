import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeNamePlaceholder } from '../../src/core/model/spec.ts';
import { assertRefused, local, problemsOf, specOf, stepsOf, tpu } from './fake-files.ts';

/** The command that a text becomes. */
function command(run: string, more = ''): string {
  return specOf(local(run, more)).spec.command.script;
}

test('a name with a dot or a bracket is a value of the manifest', () => {
  const vars = 'vars: {lr: 1e-4, list: [a, b], deep: {er: [{x: 7}]}, flag: true, version: 3.10}\n';
  assert.equal(command('${vars.lr}', vars), '1e-4');
  assert.equal(command('x ${vars.list[1]} ${vars.list.0}', vars), 'x b a');
  assert.equal(command('${vars.deep.er[0].x}', vars), '7');
  assert.equal(command('${vars[lr]}', vars), '1e-4');
  // Values keep their written form inside a text.
  assert.equal(command('${vars.flag} ${vars.version}', vars), 'true 3.10');
});

test("what the shell means by a dollar stays the shell's inside a command", () => {
  const untouched = [
    '$HOME ${HOME} $(date) `date` $1 ${1} $@ ${@} $$ $? ${#} cost: 5$',
    '${HOME:-/root} ${HOME%/*} ${HOME##*/} ${#HOME} ${HOME/a/b} ${HOME:0:3} ${HOME-x} ${!name}',
    '${hosts[@]} ${hosts[*]} ${#hosts[@]}',
    'for f in *.json; do echo "${f%.json}"; done',
    "awk '{print $1}' file | while read -r x; do echo ${x}; done",
    'unclosed ${ brace',
  ];
  for (const text of untouched) assert.equal(command(text), text);
});

test("inside what is the shell's, names of ours still count", () => {
  assert.equal(command('${OUT:-/data/${vars.run}}', 'vars: {run: seven}\n'), '${OUT:-/data/seven}');
});

test('a bare name is a key of the manifest when there is one', () => {
  assertRefused(local('${vars}', 'vars: {a: 1}\n'), /\$\{vars\} is a section, which cannot be part|not a map/);
});

test('outside a command there is no shell, so an unknown name is a problem', () => {
  assertRefused(
    local('true', 'job: {name: "x-${USER}"}\n'),
    /job\.name: \$\{USER\} is not a key of this manifest; write \\\$\{USER\}/,
  );
});

test('an escaped interpolation stays unchanged', () => {
  assert.equal(command('\\${vars.x} \\${HOME}'), '${vars.x} ${HOME}');
  assert.equal(command('\\\\${vars.x}', 'vars: {x: 1}\n'), '\\1', 'two backslashes are one, and the value');
  assert.equal(command('\\n \\\\ \\$HOME'), '\\n \\\\ \\$HOME', 'other backslashes are not ours');
});

test('a value that is one interpolation keeps its type', () => {
  const { spec } = specOf(
    tpu(
      'vars: {who: [1], many: 5, on: true, tags: [x, y]}\nsetup: {tries: "${vars.many}"}\njob: {loop: "${vars.on}", tags: "${vars.tags}"}\n',
      'run: ls, workers: "${vars.who}"',
    ),
  );
  assert.deepEqual(spec.command.workers, [1]);
  assert.equal(spec.limits.setupTries, 5);
  assert.equal(spec.recovery.preset, 'loop: true');
  assert.deepEqual(spec.tags, ['x', 'y']);
});

test('a relative name starts at its own section', () => {
  assert.equal(command('${.lr} ${..vars.x}', '  lr: 0.1\nvars: {x: 2}\n'), '0.1 2');
  assertRefused(local('${....x}'), /points outside the manifest/);
});

test('a name may hold another', () => {
  assert.equal(command('${vars.${vars.which}}', 'vars: {which: b, b: found}\n'), 'found');
  assert.equal(command('${vars.at[${vars.n}]}', 'vars: {n: 1, at: [x, y]}\n'), 'y');
});

test('a section may be an interpolation itself', () => {
  assert.equal(command('${vars.copy.x}', 'vars: {base: {x: 1}, copy: "${vars.base}"}\n'), '1');
});

test('either name of a key finds the value', () => {
  const { spec } = specOf(
    tpu('job: {env_type: conda, env: {A: "${conda.name}", B: "${conda.env_name}"}}\nconda: {env_name: fms}\n'),
  );
  assert.deepEqual(spec.command.env, { A: 'fms', B: 'fms' });
});

test('resolvers read the environment, choose, and decode', () => {
  const env = { TOKEN: 'abc', N: '3', EMPTY: '' };
  const run = (text: string): string => specOf(local(text, 'vars: {a: 1}\n'), { env }).spec.command.script;
  assert.equal(run('${oc.env:TOKEN}'), 'abc');
  assert.equal(run('${oc.env:NO,fall back}'), 'fall back');
  assert.equal(run('${oc.env:NO,"a, b"}'), 'a, b');
  assert.equal(run('${oc.env:NO,${vars.a}}'), '1');
  assert.equal(run('[${oc.env:EMPTY,x}]'), '[]', 'an empty variable is set');
  assert.equal(run('${oc.env:NO,/path/with:colon}'), '/path/with:colon');
  assert.equal(run('${oc.select:vars.a,9} ${oc.select:vars.b,9} ${oc.select:vars.b}'), '1 9 null');
  const { spec } = specOf(tpu('setup: {tries: "${oc.decode:${oc.env:N}}"}\n'), { env });
  assert.equal(spec.limits.setupTries, 3);
  assertRefused(local('${oc.env:NO}'), /the environment variable NO is not set/);
  assertRefused(local('${oc.what:NO}'), /uses oc\.what; jobman supports only oc\.env/);
});

test("the TPU's name is a placeholder until the request, except in the section tpu", () => {
  const { spec } = specOf(
    'tpu: {project: emulator, accelerator: v4-16, zone: us-central2-b, name: "ada-${tpu.accelerator}", metadata: {at: "${tpu.name}"}, tags: ["${tpu.name}"]}\n' +
      'job: {name: "run-${tpu.name}", env: {NODE: "${tpu.name}"}}\ncommand: {run: "echo ${tpu.name} ${vars.out}"}\nvars: {out: "/x/${tpu.name}"}\n',
  );
  assert.equal(spec.command.script, `echo ${nodeNamePlaceholder} /x/${nodeNamePlaceholder}`);
  assert.equal(spec.command.env['NODE'], nodeNamePlaceholder);
  assert.ok(spec.capacity.kind === 'tpu');
  assert.equal(spec.capacity.name, 'ada-v4-16');
  assert.deepEqual(spec.capacity.metadata, { at: 'ada-v4-16' });
  assert.deepEqual(spec.tags, ['ada-v4-16']);
  assert.equal(spec.name, 'run-ada-v4-16');
});

test('a cycle is one problem and prints the circle', () => {
  const lines = problemsOf(local('${vars.a}', 'vars: {a: "${vars.b}", b: "${vars.c}", c: "${vars.a}"}\n'));
  assert.equal(lines.length, 1, lines.join('\n'));
  assert.match(lines[0] ?? '', /refers to itself: vars\.a -> vars\.b -> vars\.c -> vars\.a/);
  assertRefused(local('${command.run}'), /refers to itself: command\.run -> command\.run/);
  assertRefused(local('${vars.all}', 'vars: {all: "${vars}"}\n'), /refers to itself/);
});

test('the name of the TPU cannot refer to itself, by whatever way', () => {
  const base = (name: string, more = ''): string =>
    `tpu: {project: emulator, accelerator: v4-8, zone: us-central2-b, name: "${name}"}\ncommand: {run: ls}\n${more}`;
  assertRefused(base('x-${tpu.name}'), /tpu\.name: refers to itself: tpu\.name -> tpu\.name/);
  assertRefused(base('x-${vars.n}', 'vars: {n: "${tpu.name}"}\n'), /tpu\.name/);
});

test('an unknown name says what was probably meant', () => {
  assertRefused(tpu('', 'run: "echo ${tpu.acelerator}"'), /\(did you mean "\$\{tpu\.accelerator\}"\?\)/);
  assertRefused(local('${comand.lr}', '  lr: 1\n'), /\(did you mean "\$\{command\.lr\}"\?\)/);
  assertRefused(local('${job.tags}'), /has no value in this manifest/);
});

test('all that is wrong in one text is said, not the first only', () => {
  assert.equal(problemsOf(local('${vars.a} ${vars.b} ${x.y}')).length, 3);
});

test('three question marks want a value once they are used', () => {
  assertRefused(local('${vars.x}', 'vars: {x: ???}\n'), /has no value yet \(\?\?\?\)/);
  assert.equal(command('ls', 'vars: {x: ???}\n'), 'ls');
  assertRefused('local: {}\ncommand: {run: ???}\n', /command\.run: is required; \?\?\?/);
});

test('sections that are not used need not be complete', () => {
  const text = tpu('job: {env_type: venv}\nvenv: {}\nconda: {name: "${oc.env:NO}"}\ndocker: {image: ???}\n');
  assert.deepEqual(stepsOf(text), ['venv']);
});

test('interpolation that doubles itself again and again is stopped', () => {
  const doubling = Array.from({ length: 40 }, (_, n) => `  a${n + 1}: "\${vars.a${n}}\${vars.a${n}}"\n`).join('');
  assertRefused(local('${vars.a40}', `vars:\n  a0: xxxxxxxx\n${doubling}`), /one value repeats itself/);
  const lists = Array.from({ length: 40 }, (_, n) => `  a${n + 1}: ["\${vars.a${n}}", "\${vars.a${n}}"]\n`).join('');
  assertRefused(local('${vars.a40}', `vars:\n  a0: [1]\n${lists}`), /one value repeats itself/);
});

test('a chain of very many names is refused, not followed to the end of the stack', () => {
  const chain = Array.from({ length: 15_000 }, (_, n) => `  a${n}: "\${vars.a${n + 1}}"\n`).join('');
  assertRefused(local('${vars.a0}', `vars:\n${chain}  a15000: x\n`), /chain of more than 200 references/);
});

test('a key that holds a dot is not taken for a path', () => {
  assert.equal(
    command('${vars.a.b} ${vars.c}', 'vars: {"a.b": wrong, a: {b: right}, c: "${vars.a.b}"}\n'),
    'right right',
  );
});

test('of thousands of unknown names only the first hundred get a suggestion', () => {
  const names = Array.from({ length: 9_000 }, (_, index) => `\${vars.alpha${1001 + index}}`);
  const problems = problemsOf(local(names.join(' '), 'vars: {alpha1000: 1}\n'));
  assert.equal(problems.filter((line) => line.includes('did you mean')).length, 100);
});
