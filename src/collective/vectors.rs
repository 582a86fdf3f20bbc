//! Node buffers in this process's own memory.

/// Buffers that grow to what is asked of them and begin as zeros.
#[derive(Debug, Default)]
pub(super) struct Vectors(Vec<Vec<f32>>);

impl Vectors {
    /// The first `len` floats of the first `count` buffers, to write.
    pub(super) fn nodes_mut(&mut self, count: usize, len: usize) -> Vec<&mut [f32]> {
        self.grow(count, len);
        let nodes = self.0[..count].iter_mut();
        nodes.map(|node| &mut node[..len]).collect()
    }

    /// The same, to read.
    pub(super) fn nodes(&mut self, count: usize, len: usize) -> Vec<&[f32]> {
        self.grow(count, len);
        self.0[..count].iter().map(|node| &node[..len]).collect()
    }

    fn grow(&mut self, count: usize, len: usize) {
        if self.0.len() < count {
            self.0.resize_with(count, Vec::new);
        }
        for node in &mut self.0[..count] {
            if node.len() < len {
                node.resize(len, 0.0);
            }
        }
    }
}
