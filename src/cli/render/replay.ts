// The recorded passes of a job: for each the situation, what the controller saw, and what it decided.

import type { PassList, PassView } from '../../app/client.ts';
import { escapeLine, formatDate, formatDuration, formatTimeOfDay, formatTimestamp } from '../../app/format.ts';
import { passRows, summarizePasses, unreadableNote } from '../../app/pass-rows.ts';
import type { Instant } from '../../core/model/time.ts';
import type { PassOutput } from '../outputs.ts';
import type { Layout } from '../screen.ts';
import { hangingIndent, padEnd, padStart } from './cell.ts';

export function passJson({ id }: PassList, { recorded, ...pass }: PassView): PassOutput {
  return { job: id, ...pass, recorded: recorded && { ...recorded } };
}

export function replayLines(list: PassList, decide: boolean, layout: Layout, version: string): readonly string[] {
  const { id, name, owner, passes, readable, unreadable } = list;
  const note = unreadableNote(list);
  return [
    layout.styler('bold', `${id} ${escapeLine(name)} (${escapeLine(owner)})`),
    ...passLines(passes, layout),
    ...(decide || readable + unreadable === 0 ? [summarizePasses(list, version)] : []),
    ...(note === null ? [] : [note]),
  ];
}

function passLines(passes: readonly PassView[], layout: Layout): readonly string[] {
  const { columns, now } = layout;
  let before: Instant | undefined;
  return passes.flatMap((pass) => {
    const isNewDay = before === undefined || formatDate(before, now) !== formatDate(pass.at, now);
    const later = before === undefined || pass.at - before < 1_000 ? '' : `+${formatDuration(pass.at - before)}`;
    before = pass.at;
    if (columns === null) return [...detailedLines(pass, `${formatTimestamp(pass.at)}  `, layout)];
    return [
      ...(isNewDay ? [`${formatDate(pass.at, now)}, UTC`] : []),
      ...detailedLines(pass, `${formatTimeOfDay(pass.at)}  ${padStart(later, 7)}  `, layout),
    ];
  });
}

const labelWidth = 10;

function detailedLines(pass: PassView, front: string, { columns, styler }: Layout): readonly string[] {
  const width = columns ?? Number.POSITIVE_INFINITY;
  const { title, description, rows } = passRows(pass);
  const about = description === null ? '' : `: ${description}`;
  const indent = ' '.repeat(front.length);
  const [head = '', ...rest] = hangingIndent(front, escapeLine(`${title}${about}`), width);
  return [
    head.replace(escapeLine(title), (text) => styler('bold', text)),
    ...rest,
    ...rows.flatMap(([label, texts]) =>
      texts.flatMap((text, index) =>
        hangingIndent(`${indent}${padEnd(index === 0 ? label : '', labelWidth)}`, escapeLine(text), width),
      ),
    ),
  ];
}
