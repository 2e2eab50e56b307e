// Metric lines: the numbers by name that a program prints (`step 100 loss 0.3`) or appends to its metrics file, and its
// progress (`step 100/900`). No other file recognises them.
//
// A line counts only if it names a step, or a number that only training has, such as a loss. In such a line every
// `name=value` and `name: value` is a metric; in other lines a number may be a port, a date or a size.

import { withoutColours } from './log-lines.ts';
import type { Instant } from './time.ts';

// ------------------------------------------------------------------------------------------ progress

/** `step 40,210 of 90,000`. */
export interface ProgressCount {
  readonly unit: string;
  readonly done: number;
  readonly total: number;
}

/** A unit, then `n/m` or `n of m`. A bare `3/4` may be a date or a rank and does not count. */
const countPattern =
  /\b(step|epoch|iteration|iter|batch|update)s?\b[\s:=#[(]*(\d[\d,_]*)\s*(?:\/|of|out of)\s*(\d[\d,_]*)/gi;
/** The bar of tqdm: `45%|####      | 450/1000 [00:10<00:12, 45.0it/s]`. */
const progressBarPattern = /\|\s*(\d+)\/(\d+) \[\d+:\d+/g;
/** In the description before a bar. One of another kind, such as `Downloading:`, is not progress of training. */
const trainingDescription = /\b(?:train|training|epoch|step|steps|iter|iteration|fit)\b/i;

/** Every count of a line with a done part that is not above its total. */
export function countsOf(line: string): readonly ProgressCount[] {
  const named = [...line.matchAll(countPattern)].map(([, unit = '', done = '', total = '']) =>
    progressCount(unit, done, total),
  );
  const all = named.length > 0 ? named : barCounts(line);
  return all.filter(({ done, total }) => total > 0 && done <= total);
}

function barCounts(line: string): readonly ProgressCount[] {
  const description = line.slice(0, Math.max(0, line.indexOf('%|')));
  if (/[A-Za-z]/.test(description) && !trainingDescription.test(description)) return [];
  return [...line.matchAll(progressBarPattern)].map(([, done = '', total = '']) => progressCount('step', done, total));
}

function progressCount(name: string, done: string, total: string): ProgressCount {
  const unit = name.toLowerCase();
  return { unit: unit === 'iter' ? 'iteration' : unit, done: numberOf(done), total: numberOf(total) };
}

// ------------------------------------------------------------------------------------------ metrics

/** The metrics of one line. */
export interface MetricLine {
  /** Null if the line does not name it. */
  readonly step: number | null;
  /** The last step, if the line names it. */
  readonly total: number | null;
  /** True if the step is the position of a progress bar without a name. */
  readonly isBar: boolean;
  /** In the order of the line. A name occurs once. NaN and infinities are values. */
  readonly values: readonly (readonly [name: string, value: number])[];
}

/** Only the beginning of a longer line is read. A line may print a whole tensor. */
export const maxMetricLineLength = 4_096;

const maxValues = 64;
const maxNameLength = 64;

const number = String.raw`[-+]?(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d[\d_]*(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)`;
/** `loss=0.3`, `"loss": "0.3"`, `loss: tensor(0.3)`, `lr=[1e-05]`, `loss 0.3`. */
const pairPattern = new RegExp(
  String.raw`(?<![\w./@%-])(["']?)([a-z_][\w./@%-]*)\1(\s*[=:]\s*|\s+)(?:[\w.]+\(|\[)?["']?(${number})`,
  'gi',
);
/** `1.2 it/s`, `2ms/step`, `12,345 tokens/s`. */
const ratePattern = new RegExp(
  String.raw`(?<![\w.,])(${number})\s?([a-z]{1,12}\/(?:sec(?:ond)?|s|step|it|iter|batch)(?:\/(?:device|chip|gpu))?)(?![\w/])`,
  'gi',
);

const stepName = /^(?:(?:global|train|training|current|optimizer)[_/]?)?(?:step|iteration|iter|update)$/i;
const totalName = /^(?:(?:total|max|num|train)_?(?:train_?)?(?:steps|iterations|iters)|total|steps)$/i;
/** A line with one of these is about training, even if it names no step. */
const trainingName =
  /(?:^|[_/.-])(?:loss|acc|accuracy|ppl|perplexity|reward|return|bleu|rouge|f1|auc|fid|elbo|nll|bpc|bpb|mfu|grad_norm)\d*$/i;
/** Without `=` or `:` a number counts only after one of these. */
const plainName =
  /(?:^|[_/.-])(?:loss|acc|accuracy|ppl|perplexity|reward|return|f1|auc|nll|mfu|lr|grad_norm|gnorm|norm|epoch|time|seconds)\d*$/i;
/** Numbers that name something, and lines of source files. */
const ignoredName =
  /^(?:rank|local_rank|global_rank|pid|tid|worker|host|port|seed|v_num|node|process|world_size|line|gpu|device|cuda)$|\.(?:py|cc|cpp|cu|h|c|rs|go|js|ts)$/i;
/** After a number: text that shows that it is a part of a date, a version, a time, a path or a name. */
const partOfMore = /^(?:[\w]|[.:/-]\d|:\/\/)/;
const unitAfter = /^(?:m?s|us|secs?|seconds?|min|h|x|it\/s|[kmgt]i?b|k)(?![\w])/i;
const setName = /\b(train|training|val|valid|validation|eval|test)[ ]$/i;
const pipeSegment = /(?:^|\|)\s*([A-Za-z][A-Za-z ()]*?)\s?$/;
const logPrefix = /^(?:\[[^\]]*\]\s*|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+\s+[^\]]*\]\s*)+/;
/** Cheap: most lines of most programs have none of these. */
const mayMatter =
  /step|epoch|iter|update|loss|acc|ppl|perplexity|reward|return|bleu|rouge|f1|auc|fid|elbo|nll|bp[cb]|mfu|grad_norm|\|\s*\d+\/\d+ \[/i;

/** Undefined for most lines. Reads at most `maxMetricLineLength` characters. */
export function metricsOfLine(text: string): MetricLine | undefined {
  const cut = text.length > maxMetricLineLength ? text.slice(0, maxMetricLineLength) : text;
  if (!mayMatter.test(cut)) return undefined;
  const line = withoutColours(cut).replace(logPrefix, '');
  const { pairs, isTraining } = pairsOf(line);
  const counts = countsOf(line);
  const count = counts.find(({ unit }) => unit !== 'epoch');
  const epochs = counts.find(({ unit }) => unit === 'epoch');
  const named = pairs.find(([name]) => stepName.test(name));
  const { step, total } =
    count !== undefined && epochs !== undefined
      ? stepInEpoch(count, epochs)
      : {
          step: count?.done ?? named?.[1] ?? null,
          total: count?.total ?? pairs.find(([name]) => totalName.test(name))?.[1] ?? null,
        };
  const hasStep = step !== null && Number.isFinite(step) && step >= 0;
  if (!hasStep && !isTraining) return undefined;
  const values = new Map([
    ...(epochs === undefined ? [] : [['epoch', epochs.done] as const]),
    ...pairs.filter(([name]) => !stepName.test(name) && !totalName.test(name)),
    ...ratesOf(line),
  ]);
  return epochBar({
    step: hasStep ? step : null,
    total: total !== null && hasStep && total > 0 && total >= step ? total : null,
    isBar: named === undefined && count !== undefined && !anyCountPattern.test(line),
    values: [...values].slice(0, maxValues),
  });
}

const anyCountPattern = new RegExp(countPattern.source, 'i');

/** `Epoch 3/10, step 200/500` is step 1,200 of 5,000. */
function stepInEpoch(count: ProgressCount, epochs: ProgressCount): { readonly step: number; readonly total: number } {
  return { step: Math.max(0, epochs.done - 1) * count.total + count.done, total: epochs.total * count.total };
}

/** The bar of PyTorch Lightning counts the batches of an epoch, from epoch 0: `Epoch 3:  10%|# | 10/100 [...`. */
function epochBar(line: MetricLine): MetricLine {
  const epoch = line.values.find(([name]) => name === 'epoch')?.[1];
  const { step, total, isBar } = line;
  if (!isBar || epoch === undefined || !Number.isInteger(epoch) || step === null || total === null) return line;
  return { ...line, step: epoch * total + step, total: null, isBar: false };
}

interface Pairs {
  readonly pairs: readonly (readonly [string, number])[];
  readonly isTraining: boolean;
}

function pairsOf(line: string): Pairs {
  const pairs: (readonly [string, number])[] = [];
  let isTraining = false;
  for (const found of line.matchAll(pairPattern)) {
    const [all, , name = '', separator = '', value = ''] = found;
    const rest = line.slice(found.index + all.length, found.index + all.length + 12);
    const hasSign = /[=:]/.test(separator);
    const isCounter = stepName.test(name);
    if (!hasSign && !isCounter && !plainName.test(name)) continue;
    if (partOfMore.test(rest) && !unitAfter.test(rest) && !(isCounter && /^\/\d/.test(rest))) continue;
    if (ignoredName.test(name) || (!hasSign && /^[-+]?(?:nan|inf)/i.test(value) && !trainingName.test(name))) continue;
    isTraining ||= trainingName.test(name);
    pairs.push([fullName(line, found.index, name).slice(0, maxNameLength), numberOf(value)]);
  }
  return { pairs, isTraining };
}

/** `train_loss` for `train loss 4.2`, `lm_loss` for `| lm loss: 9.1 |`. */
function fullName(line: string, index: number, name: string): string {
  const before = line.slice(Math.max(0, index - 40), index);
  const segment = line.includes(' | ') ? pipeSegment.exec(before)?.[1] : undefined;
  const front = segment ?? setName.exec(before)?.[1];
  if (name.toLowerCase() === 'epoch') return 'epoch';
  return front === undefined || stepName.test(name) ? name : `${front.trim().replaceAll(/\s+/g, '_')}_${name}`;
}

function ratesOf(line: string): readonly (readonly [string, number])[] {
  if (!line.includes('/')) return [];
  return [...line.matchAll(ratePattern)].map(([, value = '', name = '']) => [name, numberOf(value)] as const);
}

function numberOf(text: string): number {
  const value = Number(text);
  if (!Number.isNaN(value)) return value;
  const plain = text.replaceAll(/[,_]/g, '').toLowerCase();
  const sign = plain.startsWith('-') ? -1 : 1;
  if (plain.includes('inf')) return sign * Infinity;
  return plain.includes('nan') ? NaN : Number(plain);
}

/**
 * Gives the lines of one output, in their order, the step that they do not name themselves: a line of Hugging Face's
 * Trainer (`{'loss': 0.3}`) follows the progress bar of its step. Undefined for a smaller bar without a name, which is
 * not that of the training, such as that of an evaluation.
 */
export function createStepCarrier(): (line: MetricLine) => MetricLine | undefined {
  let bar: { readonly step: number; readonly total: number } | undefined;
  return (line) => {
    const { step, total, isBar } = line;
    if (isBar && step !== null && total !== null) {
      if (total < (bar?.total ?? 0)) return undefined;
      bar = { step, total };
    }
    return step === null && bar !== undefined ? { ...line, step: bar.step } : line;
  };
}

// ------------------------------------------------------------------------------------------ metrics files

/** A line of a metrics file: `1764326052123 step=100 loss=0.3`, the time in milliseconds; the time may be missing. */
export interface ReportedLine extends MetricLine {
  readonly at: Instant | null;
}

/** One call of the Python function may report hundreds of metrics. The rest of a longer line is left out. */
export const maxReportedLineLength = 65_536;

const reportedPair = new RegExp(String.raw`^([^\s=]{1,${maxNameLength}})=(${number})$`, 'i');

/**
 * Undefined for a line without a metric. Every pair of a metrics file counts, whatever its name. `onLeftOut` gets each
 * text that is not name=number, or the whole line if none is, and each step with an impossible value.
 */
export function metricsOfReport(
  text: string,
  onLeftOut: (text: string) => void = () => undefined,
): ReportedLine | undefined {
  let at: Instant | null = null;
  let step: number | null = null;
  let total: number | null = null;
  let isFound = false;
  const values = new Map<string, number>();
  const unreadable: string[] = [];
  const fields = text.slice(0, maxReportedLineLength).trim().split(/\s+/);
  // A loop, because a file may have millions of lines.
  for (const [index, field] of fields.entries()) {
    if (index === 0 && reportedTime.test(field)) {
      at = timeOf(Number(field));
      continue;
    }
    const [, name, reported = ''] = reportedPair.exec(field) ?? [];
    if (name === undefined) {
      unreadable.push(field);
      continue;
    }
    isFound = true;
    const value = numberOf(reported);
    if (stepName.test(name)) {
      if (Number.isFinite(value) && value >= 0) step ??= value;
      else onLeftOut(field);
    } else if (totalName.test(name)) total ??= Number.isFinite(value) && value > 0 ? value : null;
    else values.set(name, value);
  }
  if (isFound) unreadable.forEach(onLeftOut);
  else if (text.trim() !== '') onLeftOut(text.trim());
  return isFound ? { at, step, total, isBar: false, values: [...values] } : undefined;
}

/** Seconds, milliseconds, microseconds or nanoseconds: 10, 13, 16 or 19 digits in our time. */
const reportedTime = /^\d{10,19}(?:\.\d+)?$/;

/** The result is always before the year 5200, which every Date can hold. */
function timeOf(reported: number): Instant {
  if (reported < 1e11) return Math.round(reported * 1e3);
  const perMillisecond = reported < 1e14 ? 1 : reported < 1e17 ? 1e3 : 1e6;
  return Math.round(reported / perMillisecond);
}

// ------------------------------------------------------------------------------------------ lines of a stream

/** A line of a byte stream that has metrics, with the offset after its end. */
export interface FoundLine<Line> {
  readonly line: Line;
  readonly end: number;
}

/**
 * Finds lines in a byte stream from that offset on. Any division of the stream into chunks gives the same lines. Only the
 * first `maxLength` bytes of a line are read, so that a line of any length needs no more memory. A carriage return or a
 * backspace ends a line as well, because a progress bar overwrites itself. `end` gives the last line if it has no end.
 */
export function createLineFinder<Line>(
  recognise: (text: string) => Line | undefined,
  from = 0,
  maxLength = maxMetricLineLength,
): {
  readonly push: (chunk: Uint8Array) => readonly FoundLine<Line>[];
  readonly end: () => readonly FoundLine<Line>[];
} {
  const decoder = new TextDecoder();
  /** The beginning of a line whose end has not arrived. */
  const begun = new Uint8Array(maxLength);
  let begunLength = 0;
  let offset = from;

  function textOf(chunk: Uint8Array, start: number, stop: number): string {
    if (begunLength === 0) return decoder.decode(chunk.subarray(start, Math.min(stop, start + maxLength)));
    keep(chunk, start, stop);
    const text = decoder.decode(begun.subarray(0, begunLength));
    begunLength = 0;
    return text;
  }

  function keep(chunk: Uint8Array, start: number, stop: number): void {
    const part = chunk.subarray(start, Math.min(stop, start + maxLength - begunLength));
    begun.set(part, begunLength);
    begunLength += part.length;
  }

  return {
    push(chunk) {
      const found: FoundLine<Line>[] = [];
      let start = 0;
      for (let index = 0; index < chunk.length; index += 1) {
        const byte = chunk[index];
        if (byte !== 10 && byte !== 13 && byte !== 8) continue;
        if (index > start || begunLength > 0) {
          const line = recognise(textOf(chunk, start, index));
          if (line !== undefined) found.push({ line, end: offset + index + 1 });
        }
        start = index + 1;
      }
      keep(chunk, start, chunk.length);
      offset += chunk.length;
      return found;
    },
    end() {
      if (begunLength === 0) return [];
      const line = recognise(textOf(new Uint8Array(0), 0, 0));
      return line === undefined ? [] : [{ line, end: offset }];
    },
  };
}
