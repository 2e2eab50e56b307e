/**
 * Checks what commands print with --json against src/cli/outputs.schema.json, in every test that runs a command: each
 * line of standard output is an object of that command, and each line of standard error is an error.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { Services, Stream } from '../../src/app/services.ts';
import { wantsJson } from '../../src/cli/context.ts';
import { findCommand } from '../../src/cli/find-command.ts';
import { run as runUnchecked } from '../../src/cli/run.ts';
import { jobmanProgram } from '../../src/cli/table.ts';
import { findCommand as findTpuCommand } from '../../src/cli/tpu/parse-arguments.ts';
import { runTpu as runTpuUnchecked } from '../../src/cli/tpu/run-tpu.ts';
import { splitGlobals, table } from '../../src/cli/tpu/table.ts';
import type { LabServices } from '../../src/lab/lab.ts';
import { root } from './root.ts';

interface Printed {
  readonly stdout: string;
  readonly stderr: string;
  readonly isTerminal: boolean;
}

/** Fails with the line and the differences. Does nothing without --json. */
export function checkOutput(argv: readonly string[], { stdout, stderr, isTerminal }: Printed): void {
  if (!wantsJson(argv)) return;
  const command = commandOf(argv);
  // It prints one document of several lines.
  if (command === null || command === 'schema') return;
  checkLines(command, stdout);
  if (!isTerminal) checkLines('error', stderr);
}

export function run(argv: readonly string[], services: Services & Partial<LabServices>): Promise<number> {
  return runChecked(argv, services, (recorded) => runUnchecked(argv, recorded));
}

export function runTpu(argv: readonly string[], services: LabServices): Promise<number> {
  return runChecked(['tpu', ...argv], services, (recorded) => runTpuUnchecked(argv, recorded));
}

async function runChecked<T extends Services>(
  argv: readonly string[],
  services: T,
  call: (services: T) => Promise<number>,
): Promise<number> {
  if (!wantsJson(argv)) return call(services);
  const printed = { stdout: '', stderr: '' };
  const { io } = services;
  const record = (stream: Stream, name: 'stdout' | 'stderr'): Stream =>
    Object.create(stream, {
      write: {
        value(text: string | Uint8Array) {
          printed[name] += typeof text === 'string' ? text : Buffer.from(text).toString('utf8');
          stream.write(text);
        },
      },
    }) as Stream;
  const recorded = Object.create(io, {
    stdout: { value: record(io.stdout, 'stdout') },
    stderr: { value: record(io.stderr, 'stderr') },
  }) as Services['io'];
  const code = await call(Object.create(services, { io: { value: recorded } }) as T);
  checkOutput(argv, { ...printed, isTerminal: io.stderr.isTerminal });
  return code;
}

/** Null for a line that names no command. */
function commandOf(argv: readonly string[]): string | null {
  try {
    if (argv[0] === 'tpu') return `tpu ${findTpuCommand(table, splitGlobals(argv.slice(1)).rest).row.names[0]}`;
    const found = findCommand(jobmanProgram, argv);
    return 'command' in found ? found.command.names[0] : null;
  } catch {
    return null;
  }
}

interface SchemaFile {
  readonly $defs: object;
  readonly outputs: Readonly<Record<string, object>>;
}

const validators = new Map<string, ValidateFunction>();
let ajv: Ajv2020 | undefined;
let schemas: SchemaFile | undefined;

function validatorOf(command: string): ValidateFunction {
  schemas ??= JSON.parse(readFileSync(join(root, 'src/cli/outputs.schema.json'), 'utf8')) as SchemaFile;
  const known = Object.hasOwn(schemas.outputs, command) ? command : 'message';
  ajv ??= new Ajv2020({ strict: false });
  const validator = validators.get(known) ?? ajv.compile({ ...schemas.outputs[known], $defs: schemas.$defs });
  validators.set(known, validator);
  return validator;
}

function checkLines(command: string, text: string): void {
  const validate = validatorOf(command);
  for (const line of text.split('\n')) {
    if (line === '') continue;
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      assert.fail(`${command} --json printed a line that is not JSON: ${line}`);
    }
    if (validate(value)) continue;
    // Of several alternatives the last one fails last, which says little: list all.
    const errors = (validate.errors ?? []).map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    );
    assert.fail(`${command} --json printed a line that does not match its schema:\n${line}\n${errors.join('\n')}`);
  }
}
