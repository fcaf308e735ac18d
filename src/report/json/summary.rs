//! The answers and results tables in `report.json`. Texts and cells are the same as in all other formats.

use crate::present::table::{COLUMNS, Column};
use crate::present::{SessionAnalysis, winner};
use crate::report::sections::answers;
use serde_json::{Value, json};

pub(super) fn json(analysis: &SessionAnalysis<'_>) -> Value {
    let answers: Vec<Value> = answers(analysis.state)
        .into_iter()
        .map(|a| json!({"status": a.status, "headline": a.headline, "conditions": a.conditions}))
        .collect();
    let columns: Vec<Value> = COLUMNS.iter().map(|column| json!({"id": column.id, "title": column.title})).collect();
    let naming = crate::present::comparisons::naming(&analysis.comparisons);
    let results: Vec<Value> = analysis
        .comparisons
        .iter()
        .map(|comparison| {
            let cells = |row: &_| COLUMNS.iter().map(|column: &Column| column.marked(row)).collect::<Vec<_>>();
            let rows: Vec<Vec<String>> = comparison.rows().iter().map(cells).collect();
            let answer = winner::answer(&comparison.group, naming).map(|answer| answer.text());
            json!({"title": comparison.title(), "answer": answer, "rows": rows})
        })
        .collect();
    json!({"answers": answers, "columns": columns, "results": results})
}
