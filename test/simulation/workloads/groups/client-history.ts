/** Property: the history of all client operations is linearizable, key by key. Checked at the end. */
import { registerModel, type RegisterAction } from '../../checking/register-model.ts';
import { checkByKey, type HistoryOperation, type LinearizabilityResult } from '../../checking/linearizability.ts';
import type { Property } from '../../checking/workload.ts';

type Entry = { key: string; calledAt: number; endedAt: number; action: RegisterAction };

export const historiesAreLinearizable: Property = () => {
  const entries = new Map<string, Entry>();
  let [events, replies] = [0, 0];
  return {
    observe(event) {
      events += 1;
      if (event.kind === 'called') {
        const { client, number, key, action } = event.command;
        entries.set(`${client}/${number}`, { key, action, calledAt: events, endedAt: Infinity });
      }
      // A refused call has no effect: a read that returns its value violates linearizability.
      if (event.kind === 'callRefused')
        for (const { client, number } of event.commands) entries.delete(`${client}/${number}`);
      if (event.kind !== 'replied') return undefined;
      const entry = entries.get(`${event.command.client}/${event.command.number}`);
      if (entry === undefined)
        return `a reply to ${event.command.client}/${event.command.number}, which was never called`;
      replies += 1;
      entry.endedAt = events;
      if (entry.action.kind !== 'put') entry.action = { ...entry.action, returned: event.returned };
      return undefined;
    },
    atEnd() {
      if (replies === 0) return 'no client got a reply';
      const violation = checkByKey(registerModel, [...entries.values()]);
      return violation && `${violation.key}: ${formatResult(violation.result)}`;
    },
  };
};

function formatResult(result: LinearizabilityResult<RegisterAction>): string {
  if (result.kind !== 'violated') return result.kind;
  return `after ${result.placed} operations none of these fits: ${result.blockedOperations.map(formatOperation).join('; ')}`;
}

function formatOperation({ calledAt, endedAt, action }: HistoryOperation<RegisterAction>): string {
  return `${JSON.stringify(action)} from ${calledAt} to ${endedAt}`;
}
