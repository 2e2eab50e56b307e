// One TPU: its facts, what a release loses, and the release. Nothing is released before the second question is answered.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { escapeLine, formatDuration, formatUsd } from '../../app/format.ts';
import { idleCostOf } from '../../app/known-tpus.ts';
import { formatHourlyCost } from '../../app/phrases.ts';
import { reclaimPhrases, reclaimReason, releaseOrphans, type TpuRelease } from '../../app/reclaim.ts';
import { formatOwner } from '../../app/tpu-phrases.ts';
import { now } from '../clock.ts';
import { serverNow } from '../live.ts';
import { Command } from '../parts/command.tsx';
import { readConsequences, type Consequences } from '../parts/consequences.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Facts, type Fact } from '../parts/facts.tsx';
import { Time } from '../parts/time.tsx';
import { client, errorLines } from '../session.ts';
import { formatType, JobLink, type TpuLine } from './columns.tsx';

interface DetailProps {
  readonly line: TpuLine;
  readonly release: TpuRelease;
  readonly onRelease: (onBehalfOf: string | null) => void;
  readonly onClose: () => void;
}

export function TpuDetail({ line, release, onRelease, onClose }: DetailProps) {
  const { tpu } = line;
  const asked = useSignal<Consequences | null>(null);
  const job = release.kind === 'job' ? release.job : null;
  useEffect(() => {
    asked.value = null;
    if (job !== null) void readConsequences(job, 'cancel').then((answer) => (asked.value = answer));
  }, [job]);
  const { refusal, onBehalfOf, lines } = consequencesOf(release, asked.value);
  const isKnown = release.kind !== 'job' || asked.value !== null;
  const action = `Release ${tpu.name}${onBehalfOf === null ? '' : ` in the name of ${onBehalfOf}`}`;
  return (
    <Dialog title={tpu.name} onClose={onClose}>
      <TpuFacts line={line} />
      <section aria-label="Release" class="tpu-release">
        {!isKnown && <p role="status">Reading what the release loses…</p>}
        {refusal !== null && <p>{escapeLine(refusal)}</p>}
        {lines.map((one) => (
          <p key={one}>{escapeLine(one)}</p>
        ))}
        {release.command !== null && <Command text={release.command} />}
      </section>
      <footer>
        <button autofocus onClick={onClose}>
          Keep it as it is
        </button>
        <button
          class="danger"
          aria-disabled={refusal !== null || !isKnown}
          title={refusal ?? undefined}
          onClick={() => {
            if (refusal === null && isKnown) onRelease(onBehalfOf);
          }}
        >
          {escapeLine(action)}
        </button>
      </footer>
    </Dialog>
  );
}

function consequencesOf(release: TpuRelease, asked: Consequences | null): Consequences {
  switch (release.kind) {
    case 'none':
      return { refusal: release.reason, onBehalfOf: null, lines: [] };
    case 'orphan':
      return {
        refusal: null,
        onBehalfOf: null,
        lines: [`jobman deletes the TPU and everything stored on it. ${orphanSentence}`],
      };
    case 'job':
      return asked ?? { refusal: null, onBehalfOf: null, lines: [] };
  }
}

const orphanSentence = 'No job claims it, so no program of jobman uses it.';

function TpuFacts({ line: { tpu, aliases, isOld } }: { readonly line: TpuLine }) {
  const { row, idleSinceAt, pricePerHourUsd, chips, project, zone } = tpu;
  const createdAt = row?.createdAt ?? null;
  const cost = idleCostOf(tpu, now.value);
  const reason = row === null ? null : reclaimReason(row);
  const facts: readonly Fact[] = [
    ...(aliases.length === 0 ? [] : [['Also', escapeLine(aliases.join(', '))] as const]),
    ['Type', `${formatType(tpu)}${chips === null ? '' : `, ${chips} chips`}`],
    ['Where', escapeLine(`${zone}, project ${project}`)],
    ['State', formatStates(tpu)],
    ['Use', `${tpu.use}${reason === null ? '' : `: ${tpu.state}, ${reclaimPhrases[reason]}`}`],
    ['Held by', escapeLine(row === null ? tpu.user : formatOwner(row))],
    ['Job', tpu.job === null ? '-' : <JobLink tpu={tpu} />],
    ...(createdAt === null ? [] : [['Created', <Time key="created" at={createdAt} />] as const]),
    ...(idleSinceAt === null
      ? []
      : ([
          [
            'Idle',
            `for ${formatDuration(Math.max(0, now.value - idleSinceAt))}${cost === null ? '' : `, which has cost ${formatUsd(cost)}`}`,
          ],
        ] as const)),
    ['Price', pricePerHourUsd === null ? 'not known' : formatHourlyCost(tpu, pricePerHourUsd)],
    [
      'Checked',
      tpu.checkedAt === null ? (
        'only by its job'
      ) : (
        <>
          <Time at={tpu.checkedAt} />
          {isOld && ', not in the newest list'}
        </>
      ),
    ],
  ];
  return <Facts rows={facts} />;
}

function formatStates({ state, row }: TpuLine['tpu']): string {
  const queued = row?.queuedResourceState ?? null;
  return escapeLine(
    `${state ?? 'not checked yet'}${queued === null || queued === state ? '' : `, queued resource ${queued}`}`,
  );
}

/** Releases the TPU, and reports each step as a sentence. Never rejects. */
export async function performRelease(
  release: Exclude<TpuRelease, { readonly kind: 'none' }>,
  onBehalfOf: string | null,
  report: (lines: readonly string[]) => void,
): Promise<void> {
  try {
    if (release.kind === 'orphan') {
      const { signal } = new AbortController();
      for await (const { message } of releaseOrphans(client, [release.orphan], serverNow, signal)) report([message]);
      return;
    }
    const options = { release: true, ...(onBehalfOf === null ? {} : { onBehalfOf }) };
    const { ok, message } = await client.sendCommand(release.job, 'stop', options);
    report([message]);
    if (ok) await client.wake();
  } catch (error) {
    report(errorLines(error));
  }
}
