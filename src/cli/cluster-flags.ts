// Flags of a job for a cluster, as `submit` takes them: what each word means is decided in manifest/kubernetes-words.ts,
// for manifests too. Each throws an Error whose message says what was expected, which is told behind the flag.

import { compareQuantities, parseQuantity, zero } from '../app/cluster/quantity.ts';
import type { Duration } from '../core/time.ts';
import {
  isVariableName,
  readGpus,
  readJobName,
  readLabel,
  readObjectName,
  readSecret,
  readToleration,
  readVolume,
  type Reading,
} from '../manifest/kubernetes-words.ts';
import { parseDuration } from './parse.ts';

function parserOf<T>(read: (text: string) => Reading<T>): (text: string) => T {
  return (text) => {
    const reading = read(text);
    if ('value' in reading) return reading.value;
    throw new Error(`it ${reading.wrong}${reading.meant === undefined ? '' : ` (did you mean ${reading.meant}?)`}`);
  };
}

export const parseJobName = parserOf(readJobName);

export const parseObjectName = parserOf(readObjectName);

export const parseGpus = parserOf(readGpus);

export const parseVolume = parserOf(readVolume);

export const parseSecret = parserOf(readSecret);

export function parseAmount(text: string): string {
  if (parseQuantity(text) === undefined) throw new Error('expected an amount: 8G, 512Mi');
  return text;
}

export function parseRequest(text: string): string {
  const amount = parseQuantity(text);
  if (amount === undefined || compareQuantities(amount, zero) <= 0) {
    throw new Error('expected an amount: 4 or 500m of a cpu, 16Gi of memory');
  }
  return text;
}

export const parseLabel = parserOf(readLabel);

export const parseToleration = parserOf(readToleration);

export function parseTtl(text: string): Duration | 'none' {
  if (text === 'none') return text;
  try {
    return parseDuration(text);
  } catch {
    throw new Error('expected a length of time (12h, 7d), or none');
  }
}

export function parsePods(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error('expected a whole number from 1 on');
  return Number(text);
}

export type VariableWish = readonly [name: string, value: string | null];

export function parseVariable(text: string): VariableWish {
  const at = text.indexOf('=');
  const name = at < 0 ? text : text.slice(0, at);
  if (!isVariableName(name)) throw new Error('expected NAME=VALUE, or the NAME of a variable that is set here');
  return [name, at < 0 ? null : text.slice(at + 1)];
}
