/** Collects all client operations and checks at the end that each key is linearizable. */
import { registerModel, type RegisterAction } from '../../checking/register-model.ts';
import { checkByKey, type HistoryOperation, type LinearizabilityResult } from '../../checking/linearizability.ts';
import type { Property } from '../../checking/workload.ts';

type Entry = { key: string; calledAt: number; endedAt: number; action: RegisterAction };

export const historiesAreLinearizable: Property = () => {
  const entries = new Map<string, Entry>();
  let [events, answers] = [0, 0];
  return {
    observe(seen) {
      events += 1;
      if (seen.kind === 'called') {
        const { client, number, key, action } = seen.order;
        entries.set(`${client}/${number}`, { key, action, calledAt: events, endedAt: Infinity });
      }
      // It is promised that it never happens: whoever sees it sees what nobody wrote.
      if (seen.kind === 'refused') for (const { client, number } of seen.orders) entries.delete(`${client}/${number}`);
      if (seen.kind !== 'answered') return undefined;
      const entry = entries.get(`${seen.order.client}/${seen.order.number}`);
      if (entry === undefined) return 'an answer to what nobody asked';
      answers += 1;
      entry.endedAt = events;
      if (entry.action.kind !== 'put') entry.action = { ...entry.action, returned: seen.saw };
      return undefined;
    },
    atEnd() {
      if (answers === 0) return 'no client got any answer';
      const wrong = checkByKey(registerModel, [...entries.values()]);
      return wrong && `${wrong.key}: ${print(wrong.verdict)}`;
    },
  };
};

function print(verdict: LinearizabilityResult<RegisterAction>): string {
  if (verdict.kind !== 'violated') return verdict.kind;
  return `after ${verdict.placed} operations none of these fits: ${verdict.blockedOperations.map(printOperation).join('; ')}`;
}

function printOperation({ calledAt, endedAt, action }: HistoryOperation<RegisterAction>): string {
  return `${JSON.stringify(action)} from ${calledAt} to ${endedAt}`;
}
