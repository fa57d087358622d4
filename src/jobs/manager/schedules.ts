/** Jobs that begin again and again at certain times. */
import { type Outcome, failure } from '../../base/errors.ts';
import type { JobRequest } from '../job-words.ts';

export class Schedules {
  add(_request: JobRequest, _words: string, _submitter: string, answer: (outcome: Outcome<string>) => void): void {
    answer(failure('INTERNAL', 'schedules are not built yet'));
  }

  remove(_name: string, _submitter: string, answer: (outcome: Outcome<string>) => void): void {
    answer(failure('INTERNAL', 'schedules are not built yet'));
  }

  shown(): readonly unknown[] {
    return [];
  }
}
