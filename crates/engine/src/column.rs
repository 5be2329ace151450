//! Growth of the columns of tables that live as long as the process.

/// Appends a value. A full column grows by a quarter instead of doubling: all columns of a table
/// fill up at once, and doubling could leave half of their memory unused.
pub(crate) fn push<T>(column: &mut Vec<T>, value: T) {
    if column.len() == column.capacity() {
        column.reserve_exact(column.len() / 4 + 16);
    }
    column.push(value);
}

#[cfg(test)]
mod tests {
    #[test]
    fn little_is_spare_and_columns_seldom_grow() {
        let mut column = Vec::new();
        let mut grown = 0;
        for value in 0..10_000 {
            grown += usize::from(column.len() == column.capacity());
            super::push(&mut column, value);
        }
        assert!(column.capacity() < 12_600, "{}", column.capacity());
        assert!(grown < 40, "{grown}");
        assert!(column.iter().copied().eq(0..10_000));
    }
}
