// The zones: chips by use with the limit of the quota, and the newest answers of the clouds to requests for capacity.

import { useSignal } from '@preact/signals';
import { generationOf } from '../../catalogue/accelerators.ts';
import { escapeLine, formatAge } from '../../app/format.ts';
import type { UnreadLimits } from '../../app/quota.ts';
import { formatUnread } from '../../app/tpu-phrases.ts';
import { formatZoneUsers, type TopZone } from '../../app/top.ts';
import { formatLastAnswer, formatLastGrant, type ZoneRow } from '../../app/zones.ts';
import { now } from '../clock.ts';
import { pageHref } from '../location.ts';
import { Command } from '../parts/command.tsx';
import { Failure } from '../parts/messages.tsx';
import { client, errorLines } from '../session.ts';
import type { TpuChoice } from './select-tpus.ts';

type ZoneChoice = Pick<TpuChoice, 'zone' | 'type'>;

/** A type selects the zones that have its generation. */
function zonesOf(zones: readonly TopZone[], { zone, type }: ZoneChoice): readonly TopZone[] {
  const generation = type === null ? null : (generationOf(type)?.name ?? type);
  return zones.filter(
    (one) => (zone === null || one.zone === zone) && (generation === null || one.generation === generation),
  );
}

interface ZonesProps {
  readonly zones: readonly TopZone[];
  readonly choice: ZoneChoice;
  readonly onLimits: () => void;
}

export function Zones({ zones, choice, onLimits }: ZonesProps) {
  const rows = zonesOf(zones, choice);
  if (rows.length === 0) return null;
  const isOneProject = new Set(rows.map(({ project }) => project)).size === 1;
  return (
    <section aria-labelledby="zones">
      <div class="bar">
        <h2 id="zones">Chips by zone</h2>
        <Limits onRead={onLimits} />
        <Command text="jobman quota" />
      </div>
      <div class="scroll" role="group" aria-label="Chips by zone, scrollable" tabIndex={0}>
        <table class="plain-table numbers" aria-labelledby="zones">
          <thead>
            <tr>
              <th scope="col">Zone</th>
              <th scope="col">Generation</th>
              <Number title="Limit" />
              <Number title="Held" />
              <Number title="Busy" wide />
              <Number title="Idle" />
              <Number title="Waiting" />
              <Number title="Ended" wide />
              <Number title="Orphans" wide />
              <th scope="col" class="wide">
                Held by
              </th>
              <Number title="Checked" wide />
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={`${row.project}/${row.zone}/${row.generation}`}>
                <th scope="row">{escapeLine(isOneProject ? row.zone : `${row.project}/${row.zone}`)}</th>
                <td>{escapeLine(row.generation ?? '?')}</td>
                <td class="right" title="The quotas of all pricings together">
                  {row.limitChips === null ? (
                    '-'
                  ) : (
                    <>
                      {row.limitChips}
                      {row.limitReadAt !== null && (
                        <span class="quiet"> {formatAge(now.value - row.limitReadAt)} ago</span>
                      )}
                    </>
                  )}
                </td>
                <td class="right">{chips(row.heldChips)}</td>
                <td class="right wide">{chips(row.busyChips)}</td>
                <td class={row.idleChips === 0 ? 'right' : 'right use-idle'}>
                  {chips(row.idleChips)}
                  {row.idleSinceAt !== null && <span> for {formatAge(now.value - row.idleSinceAt)}</span>}
                </td>
                <td class="right">{chips(row.waitingChips)}</td>
                <td class={row.endedChips === 0 ? 'right wide' : 'right wide use-ended'}>{chips(row.endedChips)}</td>
                <td class={row.orphanChips === 0 ? 'right wide' : 'right wide use-idle'}>{chips(row.orphanChips)}</td>
                <td class="wide">{escapeLine(formatZoneUsers(row))}</td>
                <td class="right wide">
                  {row.checkedAt === null ? 'never' : `${formatAge(now.value - row.checkedAt)} ago`}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Number({ title, wide }: { readonly title: string; readonly wide?: true }) {
  return (
    <th scope="col" class={wide ? 'right wide' : 'right'}>
      {title}
    </th>
  );
}

/** Unknown is not 0. */
function chips(count: number | null): string {
  return count === null ? '?' : String(count);
}

/** Reads the limits from the clouds, which no other part of the page does. */
function Limits({ onRead }: { readonly onRead: () => void }) {
  const isReading = useSignal(false);
  const failures = useSignal<readonly (readonly string[])[] | null>(null);
  const read = async (): Promise<void> => {
    if (isReading.peek()) return;
    isReading.value = true;
    failures.value = await client.quota({}).then(
      ({ unread }) => unread.map(linesOf),
      (error: unknown) => [errorLines(error)],
    );
    isReading.value = false;
    onRead();
  };
  const problems = failures.value ?? [];
  return (
    <>
      <button aria-disabled={isReading.value} onClick={() => void read()}>
        {isReading.value ? 'Reading the limits…' : 'Read the limits now'}
      </button>
      {failures.value?.length === 0 && <span class="quiet">A zone without a number has no limit.</span>}
      {problems.map((lines) => (
        <Failure key={lines[0] ?? ''} lines={lines} retry={null} />
      ))}
    </>
  );
}

function linesOf(unread: UnreadLimits): readonly string[] {
  return [`${formatUnread(unread)}.`, ...(unread.fix === null ? [] : [unread.fix])];
}

interface AnswersProps {
  readonly rows: readonly ZoneRow[];
  readonly choice: ZoneChoice;
}

export function Answers({ rows, choice: { zone, type } }: AnswersProps) {
  const shown = rows.filter(
    (row) => (zone === null || row.zone === zone) && (type === null || row.accelerator === type),
  );
  return (
    <section aria-labelledby="answers">
      <div class="bar">
        <h2 id="answers">Answers to requests for capacity</h2>
        <Command text="jobman zones" />
      </div>
      {shown.length === 0 ? (
        <p class="quiet">
          {rows.length === 0 ? 'No job has requested a TPU yet.' : 'No job has requested such a TPU.'}
        </p>
      ) : (
        <div class="scroll" role="group" aria-label="Answers, scrollable" tabIndex={0}>
          <table class="plain-table numbers" aria-labelledby="answers">
            <thead>
              <tr>
                {['Zone', 'Type', 'Newest answer', 'Newest TPU'].map((title) => (
                  <th key={title} scope="col">
                    {title}
                  </th>
                ))}
                <th scope="col" class="wide">
                  Held by jobs
                </th>
                <th scope="col" class="wide">
                  Awaited by jobs
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((row) => (
                <tr key={`${row.project}/${row.zone}/${row.accelerator}/${row.pricing}`}>
                  <th scope="row">{escapeLine(row.zone)}</th>
                  <td>{escapeLine(`${row.accelerator} ${row.pricing}`)}</td>
                  <td>{formatLastAnswer(row, now.value)}</td>
                  <td>{formatLastGrant(row, now.value)}</td>
                  <td class="wide">{jobLinks(row.heldBy)}</td>
                  <td class="wide">{jobLinks(row.awaitedBy)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function jobLinks(ids: readonly string[]) {
  if (ids.length === 0) return '-';
  return ids.map((id, index) => (
    <span key={id}>
      {index > 0 && ', '}
      <a href={pageHref(['jobs', id])}>{id}</a>
    </span>
  ));
}
