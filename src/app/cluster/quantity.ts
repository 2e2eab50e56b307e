// Quantity: Kubernetes amounts in exact arithmetic. `1` equals `1000m`, `1G` does not equal `1Gi`, and ten times `0.1`
// is 1. Floating-point numbers would get the last wrong and lose digits of large amounts. Grammar:
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/

import { quantityPattern } from '../../manifest/kubernetes-values.ts';

/** In billionths, the precision of Kubernetes. `style`: suffixes with powers of two or of ten. */
export interface Quantity {
  readonly nanos: bigint;
  readonly style: 'binary' | 'decimal';
}

const nano = 1_000_000_000n;

const binarySuffixes = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'] as const;
const decimalSuffixes = ['n', 'u', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E'] as const;

export const zero: Quantity = { nanos: 0n, style: 'decimal' };

/** Undefined for an invalid amount. Rounds away from zero to a billionth, as the API server does. */
export function parseQuantity(written: string | number): Quantity | undefined {
  const [, sign, digits, suffix = ''] = quantityPattern.exec(String(written)) ?? [];
  if (digits === undefined) return undefined;
  const [whole = '', fraction = ''] = digits.split('.');
  const mantissa = BigInt(whole + fraction || '0');
  const style = suffix.endsWith('i') ? 'binary' : 'decimal';
  const factor = factorOf(suffix);
  const above = mantissa * factor.up * nano;
  const below = 10n ** BigInt(fraction.length) * factor.down;
  const size = (above + below - 1n) / below;
  return { nanos: sign === '-' ? -size : size, style };
}

function factorOf(suffix: string): { readonly up: bigint; readonly down: bigint } {
  const binary = (binarySuffixes as readonly string[]).indexOf(suffix);
  if (binary > 0) return { up: 1024n ** BigInt(binary), down: 1n };
  const decimal = (decimalSuffixes as readonly string[]).indexOf(suffix);
  const power = decimal >= 0 ? (decimal - 3) * 3 : Number(suffix.slice(1));
  return power >= 0 ? { up: 10n ** BigInt(power), down: 1n } : { up: 1n, down: 10n ** BigInt(-power) };
}

export function addQuantities(one: Quantity, other: Quantity): Quantity {
  return {
    nanos: one.nanos + other.nanos,
    style: one.style === 'binary' || other.style === 'binary' ? 'binary' : 'decimal',
  };
}

export function compareQuantities(one: Quantity, other: Quantity): number {
  return one.nanos < other.nanos ? -1 : one.nanos > other.nanos ? 1 : 0;
}

/** Canonical text: no fraction and the largest possible suffix, binary only for a whole number. */
export function formatQuantity({ nanos, style }: Quantity): string {
  if (nanos === 0n) return '0';
  const sign = nanos < 0n ? '-' : '';
  let size = nanos < 0n ? -nanos : nanos;
  if (style === 'binary' && size % nano === 0n) {
    size /= nano;
    let step = 0;
    for (; step < binarySuffixes.length - 1 && size % 1024n === 0n; step += 1) size /= 1024n;
    return `${sign}${size}${binarySuffixes[step]}`;
  }
  let step = 0;
  for (; step < decimalSuffixes.length - 1 && size % 1000n === 0n; step += 1) size /= 1000n;
  return `${sign}${size}${decimalSuffixes[step]}`;
}

/** A text that is equal for equal amounts in any notation. Undefined for an invalid amount. */
export function quantityKey(written: string | number): string | undefined {
  const quantity = parseQuantity(written);
  return quantity === undefined ? undefined : formatQuantity({ nanos: quantity.nanos, style: 'decimal' });
}

export function isWholeQuantity({ nanos }: Quantity): boolean {
  return nanos % nano === 0n;
}

/** Inexact: for shares and bars, not for comparisons. */
export function quantityNumber({ nanos }: Quantity): number {
  return Number(nanos) / Number(nano);
}
