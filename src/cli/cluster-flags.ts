// Flags of `submit`. Each parser throws an Error that says what it expected, behind the flag. The rules are in
// manifest/kubernetes-values.ts, because manifests have the same values.

import { usageError } from '../app/errors.ts';
import { compareQuantities, parseQuantity, zero } from '../app/cluster/quantity.ts';
import { isVariableName, type ParseResult } from '../manifest/kubernetes-values.ts';

/** The parser of a flag whose value has the form that it has in a manifest. */
export function parserOf<T>(read: (text: string) => ParseResult<T>): (text: string) => T {
  return (text) => {
    const reading = read(text);
    if ('value' in reading) return reading.value;
    throw new Error(
      `it ${reading.problem}${reading.suggestion === undefined ? '' : ` (did you mean ${reading.suggestion}?)`}`,
    );
  };
}

export function parseAmount(text: string): string {
  const quantity = parseQuantity(text);
  if (quantity === undefined || compareQuantities(quantity, zero) <= 0) {
    throw new Error('expected an amount: 4 or 500m of a cpu, 16Gi of memory');
  }
  return text;
}

export function parsePodCount(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error('expected a whole number from 1 on');
  return Number(text);
}

export type VariableFlag = readonly [name: string, value: string | null];

export function parseVariable(text: string): VariableFlag {
  const at = text.indexOf('=');
  const name = at < 0 ? text : text.slice(0, at);
  if (!isVariableName(name)) throw new Error('expected NAME=VALUE, or the NAME of a variable that is set here');
  return [name, at < 0 ? null : text.slice(at + 1)];
}

/** Throws a usage error for a variable without a value that is not set here. */
export function variablesOf(
  variables: readonly VariableFlag[],
  env: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  const missing = variables.flatMap(([name, value]) => (value === null && env[name] === undefined ? [name] : []));
  if (missing.length > 0) {
    throw usageError(`Not set here: ${missing.join(', ')}. Give a value: --env ${missing[0]}=VALUE`);
  }
  return Object.fromEntries(variables.map(([name, value]) => [name, value ?? env[name] ?? '']));
}
