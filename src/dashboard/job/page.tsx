// One job: its state with the reason, and its commands.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { JobView } from '../../app/client.ts';
import { escapeLine, formatDuration } from '../../app/format.ts';
import { now } from '../clock.ts';
import { address } from '../location.ts';
import { PageCommand } from '../parts/command.tsx';
import { Failure } from '../parts/messages.tsx';
import { PhaseLabel } from '../parts/phase.tsx';
import { Time } from '../parts/time.tsx';
import { Commands } from './commands.tsx';
import { followJob, type JobState } from './job-state.ts';

export function JobPage() {
  const id = address.value.path[1] ?? '';
  const state = useSignal<JobState | null>(null);
  useEffect(() => followJob(id, (next) => (state.value = next)), [id]);
  const { view, actions, failure } = state.value ?? { view: null, actions: null, failure: null };
  return (
    <article class="page">
      {failure !== null && <Failure lines={failure} retry={null} />}
      {view === null ? (
        failure === null && <p class="quiet">Reading job {id}…</p>
      ) : (
        <>
          <div class="bar">
            <h1>
              {view.id} {escapeLine(view.name)}
            </h1>
            <PhaseLabel row={view} />
            <span class="quiet">
              for {formatDuration(now.value - view.phaseStartedAt)}, {view.owner}
            </span>
            <PageCommand text={`jobman show ${view.id}`} />
          </div>
          <Reason view={view} />
          {actions !== null && <Commands view={view} actions={actions} />}
        </>
      )}
    </article>
  );
}

function Reason({ view: { why, createdAt } }: { readonly view: JobView }) {
  return (
    <section aria-label="Reason" class="reason">
      <p>{why.message}</p>
      {why.evidence !== null && <p class="quiet">{why.evidence}</p>}
      {why.next !== null && <p class="quiet">{why.next}</p>}
      <p class="quiet">
        Created at <Time at={createdAt} />
      </p>
    </section>
  );
}
