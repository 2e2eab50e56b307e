/**
 * A client whose arguments and answers travel as JSON, as they would over HTTP: a function, a Map, a Date, an absent value
 * in a property, or bytes where none are allowed fail the test. Errors keep only what JSON can carry.
 */
import assert from 'node:assert/strict';
import type { Client } from '../../src/app/client.ts';
import { JobmanError } from '../../src/app/errors.ts';
import { withNext, type Rows } from '../../src/app/pages.ts';

/** Bytes travel as they are: parts of logs, files, secrets, and output. */
const withBytes: ReadonlySet<PropertyKey> = new Set<keyof Client>([
  'readLog',
  'readLogs',
  'readArchivedLog',
  'readWorkdirFile',
  'readStepFile',
  'putBlobs',
  'setSecret',
  'replaceJobSecret',
  'runStep',
]);

/** The value as its receiver gets it. Throws AssertionError for what JSON cannot carry unchanged. */
export function throughJson<T>(value: T, where: string, mayHaveBytes = false): T {
  if (value === undefined) return value;
  expectPlain(value, where, mayHaveBytes);
  // A Buffer arrives as the bytes that it is.
  if (mayHaveBytes) return structuredClone(value);
  const json = JSON.parse(JSON.stringify(value)) as T;
  // A page of a list travels with its cursor.
  const copy = Array.isArray(value) ? (withNext(json as unknown[], (value as Rows<unknown>).next) as T) : json;
  assert.deepEqual(copy, value, where);
  return copy;
}

function expectPlain(value: unknown, where: string, mayHaveBytes: boolean): void {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return;
  if (typeof value === 'number') assert.ok(Number.isFinite(value), `${where} is ${value}`);
  else if (Array.isArray(value)) value.forEach((item, at) => expectPlain(item, `${where}[${at}]`, mayHaveBytes));
  else if (value instanceof Uint8Array) assert.ok(mayHaveBytes, `${where} has bytes`);
  else if (typeof value === 'object') {
    const prototype: unknown = Object.getPrototypeOf(value);
    assert.ok(prototype === Object.prototype || prototype === null, `${where} is a ${value.constructor.name}`);
    for (const [key, item] of Object.entries(value)) expectPlain(item, `${where}.${key}`, mayHaveBytes);
  } else assert.fail(`${where} is ${typeof value}`);
}

/** Absent properties of an argument are left out, as by JSON. */
function argument(value: unknown, where: string, mayHaveBytes: boolean): unknown {
  if (mayHaveBytes) return throughJson(value, where, true);
  const copy: unknown = value === undefined ? undefined : JSON.parse(JSON.stringify(value));
  return throughJson(copy, where);
}

function errorThroughJson(error: unknown): unknown {
  if (!(error instanceof JobmanError)) return error;
  const { message, code, lines, errorCode, problems, reasons, refusedFor } = error;
  const sent = throughJson({ message, code, lines, errorCode, problems, reasons, refusedFor }, message);
  return new JobmanError(sent.message, sent.code, sent.lines, {
    errorCode: sent.errorCode,
    problems: sent.problems,
    reasons: sent.reasons,
    ...(sent.refusedFor === null ? {} : { refusedFor: sent.refusedFor }),
  });
}

type Method = (...values: readonly unknown[]) => Promise<unknown> | AsyncIterable<unknown>;

/** `onAnswer` gets the name of each method that has answered or yielded, after the answer has passed. */
export function overJson(client: Client, onAnswer: (method: string) => void = () => undefined): Client {
  return new Proxy(client, {
    get(target, name) {
      const method = Reflect.get(target, name) as Method | undefined;
      if (method === undefined) return undefined;
      const where = `${String(name)}()`;
      const mayHaveBytes = withBytes.has(name);
      const received = (value: unknown): unknown => {
        const copy = throughJson(value, where, mayHaveBytes);
        onAnswer(String(name));
        return copy;
      };
      return (...values: readonly unknown[]) => {
        expectNoFunction(values, where);
        const answer = method(...values.map((value) => argument(value, `an argument of ${where}`, mayHaveBytes)));
        if (answer instanceof Promise)
          return answer.then(
            (result) => received(result),
            (error: unknown) => Promise.reject(errorThroughJson(error) as Error),
          );
        const values_ = (answer as AsyncIterable<unknown>)[Symbol.asyncIterator]();
        const next = async () => {
          try {
            const result = await values_.next();
            return result.done === true ? result : { ...result, value: received(result.value) };
          } catch (error) {
            throw errorThroughJson(error);
          }
        };
        return { [Symbol.asyncIterator]: () => ({ ...values_, next, return: () => values_.return?.() }) };
      };
    },
  });
}

/** JSON would leave a function out of an argument. */
function expectNoFunction(value: unknown, where: string): void {
  assert.notEqual(typeof value, 'function', `an argument of ${where} is a function`);
  if (typeof value !== 'object' || value === null) return;
  assert.ok(!(value instanceof Map || value instanceof Set || value instanceof Date), `an argument of ${where}`);
  for (const item of Object.values(value)) expectNoFunction(item, where);
}
